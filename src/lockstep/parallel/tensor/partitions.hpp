#pragma once
#include <cstdint>
#include <utility>

#include <lockstep/nn/partition.hpp>
#include <lockstep/parallel/tensor/regions.hpp>
#include <lockstep/parallel/tensor/vocabulary.hpp>

// Objects that the styles of parallel_style.hpp give to modules. Private to this folder.

namespace lockstep {

class GroupPartition : public nn::Partition {
 public:
  explicit GroupPartition(GroupPtr group) : group_(std::move(group)) {}

 protected:
  [[nodiscard]] const GroupPtr& group() const noexcept { return group_; }
  /// The input of each rank's part, from one that is cut along the sequence or replicated.
  [[nodiscard]] Variable input_of_parts(const Variable& x, bool sequence) const {
    return sequence ? all_gather_along(x, 1, group_) : copy_to_group(x, group_);
  }

 private:
  GroupPtr group_;
};

/// Of a layer whose outputs are shared out.
class ColumnPartition : public GroupPartition {
 public:
  /// `holders`: the ranks that hold the same slab; null: this one. `gathered_at`: where this rank's
  /// features begin in the gathered output; -1: it is not gathered.
  ColumnPartition(GroupPtr group, bool sequence, GroupPtr holders, std::int64_t gathered_at,
                  std::int64_t outputs)
      : GroupPartition(std::move(group)),
        sequence_(sequence),
        holders_(std::move(holders)),
        gathered_at_(gathered_at),
        outputs_(outputs) {}
  [[nodiscard]] Variable enter(const Variable& x) const override;
  [[nodiscard]] Variable linear(const Variable& x, const Variable& weight,
                                const Variable& bias) const override;
  [[nodiscard]] Variable linear_without_values(const Variable& x, const Variable& weight,
                                               const Variable& bias) const override;

 private:
  [[nodiscard]] Variable held(const Variable& parameter) const;
  [[nodiscard]] Variable output(const Variable& y) const;

  bool sequence_;
  GroupPtr holders_;
  std::int64_t gathered_at_, outputs_;
};

/// Of a Linear whose inputs are shared out.
class RowPartition : public GroupPartition {
 public:
  RowPartition(GroupPtr group, bool sequence, bool split_input, const Slice& inputs)
      : GroupPartition(std::move(group)),
        sequence_(sequence),
        split_input_(split_input),
        inputs_(inputs) {}
  [[nodiscard]] Variable linear(const Variable& x, const Variable& weight,
                                const Variable& bias) const override;
  [[nodiscard]] Variable linear_without_values(const Variable& x, const Variable& weight,
                                               const Variable& bias) const override;

 private:
  [[nodiscard]] Variable input(const Variable& x) const;
  [[nodiscard]] Variable output(const Variable& partial, const Variable& bias) const;

  bool sequence_, split_input_;
  Slice inputs_;
};

/// Of an Embedding whose rows are shared out.
class VocabularyPartition : public GroupPartition {
 public:
  VocabularyPartition(GroupPtr group, const ClassSlab& slab)
      : GroupPartition(std::move(group)), slab_(slab) {}
  [[nodiscard]] Variable embedding(const Tensor& index, const Variable& weight,
                                   std::int64_t padding_idx) const override {
    return vocabulary_parallel_embedding(index, weight, slab_, padding_idx, group());
  }

 private:
  ClassSlab slab_;
};

/// Of a norm whose activations are cut along the sequence.
class SequenceNormPartition : public GroupPartition {
 public:
  using GroupPartition::GroupPartition;
  [[nodiscard]] Variable use(const Variable& parameter) const override {
    return copy_to_group(parameter, group());
  }
};

/// Of a Dropout whose activations are cut along `dim`: a rank draws its slab of the whole mask.
class DropoutPartition : public GroupPartition {
 public:
  /// `mine` of `whole` elements; 0: equal slabs.
  DropoutPartition(GroupPtr group, int dim, const Slice& mine, std::int64_t whole = 0)
      : GroupPartition(std::move(group)), dim_(dim), mine_(mine), whole_(whole) {}
  [[nodiscard]] Variable dropout(const Variable& x, double p, const RandomKey& key) const override;

 private:
  int dim_;
  Slice mine_;
  std::int64_t whole_;
};

/// Of a module within which activations are cut along the sequence.
class SequenceRegionPartition : public GroupPartition {
 public:
  using GroupPartition::GroupPartition;
  [[nodiscard]] Variable enter(const Variable& x) const override;
  [[nodiscard]] Variable leave(const Variable& y) const override;
};

/// Of a Gpt.
class GptPartition : public GroupPartition {
 public:
  GptPartition(GroupPtr group, bool sequence, const ClassSlab& slab)
      : GroupPartition(std::move(group)), sequence_(sequence), slab_(slab) {}
  [[nodiscard]] Variable enter(const Variable& x) const override;
  [[nodiscard]] Variable linear(const Variable& x, const Variable& weight,
                                const Variable& bias) const override;
  [[nodiscard]] Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                                              const Tensor& target, const LossOptions& options,
                                              LossGradients when) const override {
    return vocabulary_parallel_linear_cross_entropy(input_of_parts(x, sequence_), weight, target,
                                                    slab_, group(), options, when);
  }

 private:
  bool sequence_;
  ClassSlab slab_;
};

}  // namespace lockstep
