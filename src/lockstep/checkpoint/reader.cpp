#include <lockstep/checkpoint/reader.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/file/placed_regions.hpp>
#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {
namespace {

/// The rest of `path` after `prefix`; empty for another path.
std::string name_under(const std::string& path, std::string_view prefix) {
  return path.starts_with(prefix) ? path.substr(prefix.size()) : std::string();
}

/// Everything but the tensors.
void read_facts(const CheckpointFile& file, CheckpointContents& contents) {
  contents.train.step = file.integer("/train/step");
  contents.train.epoch = file.integer("/train/epoch");
  contents.train.position = file.integer("/train/position");
  contents.train.seed = file.integer("/train/seed");
  contents.deck = file.text("/deck");
  if (file.manifest().find("/signature"))
    contents.signature = ModelSignature::parse(file.text("/signature"), "/signature");
  for (const auto& [path, dtype, text, shape, offset, slabs] : file.manifest().datasets) {
    if (auto sum = name_under(path, "/train/sums/"); !sum.empty()) {
      contents.train.sums.emplace_back(std::move(sum), file.real(path));
    } else if (auto count = name_under(path, "/train/counts/"); !count.empty()) {
      contents.train.counts.emplace_back(std::move(count), file.integer(path));
    } else if (auto metric = name_under(path, "/train/metrics/"); !metric.empty()) {
      contents.train.metrics.emplace_back(std::move(metric), file.real(path));
    } else if (auto key = name_under(path, "/metadata/"); !key.empty()) {
      contents.metadata.emplace_back(std::move(key), file.text(path));
    }
  }
}

/// Reads the tensors of a file in its order: `read(entry, name, state)` inserts each into its
/// StateDict.
template <class Read>
void for_each_tensor(const Manifest& manifest, CheckpointContents& contents, const Read& read) {
  for (const auto& entry : manifest.datasets) {
    if (auto model = name_under(entry.path, "/model/"); !model.empty()) {
      read(entry, model, contents.model);
    } else if (auto slot = name_under(entry.path, "/optimizer/"); !slot.empty()) {
      read(entry, slot, contents.optimizer);
    }
  }
}

/// Tensors that all ranks want whole: each rank reads a share.
class Shared {
 public:
  void add(const DatasetEntry& entry, const Tensor& whole) {
    entries_.push_back(entry);
    tensors_.push_back(whole);
  }

  void read(const ProcessGroup& group, const CheckpointFile& file) {
    std::vector<DatasetEntry*> pointers;
    for (auto& entry : entries_) pointers.push_back(&entry);
    deal_replicated(pointers, group.size());
    for (std::size_t i = 0; i < entries_.size(); ++i)
      file.read_slabs(entries_[i], group.rank(), tensors_[i]);
  }

  /// Sends every rank's share to all. Collective.
  void exchange(ProcessGroup& group) const {
    std::vector<Work> works;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const auto& slabs = entries_[i].slabs;
      for (auto first = slabs.begin(); first != slabs.end();) {
        const auto last = std::find_if(
            first, slabs.end(), [&](const Slab& slab) { return slab.owner != first->owner; });
        const std::int64_t bytes = std::prev(last)->end() - first->begin;
        const auto share =
            Tensor::over(tensors_[i].storage(),
                         tensors_[i].offset_bytes() + static_cast<std::size_t>(first->begin),
                         {bytes}, DType::u8);
        works.push_back(group.broadcast(share, first->owner));
        first = last;
      }
    }
    for (auto& work : works) work.wait();
  }

  /// Whether shares are runs of bytes.
  [[nodiscard]] static bool can_hold(const DatasetEntry& entry) {
    std::int64_t end = 0;
    return std::ranges::all_of(entry.slabs, [&](const Slab& slab) {
      const bool follows = slab.run == 0 && slab.begin == end;
      end = slab.end();
      return follows;
    });
  }

 private:
  std::vector<DatasetEntry> entries_;
  std::vector<Tensor> tensors_;
};

/// Reads the part of a data set that `placement` says.
void read_part(const CheckpointFile& file, const DatasetEntry& entry, const Placement& placement,
               const Tensor& part) {
  DatasetEntry by_parts = entry;  // the same bytes
  by_parts.shape = placement.by_parts(entry.shape);
  file.read(by_parts, placed_regions(placement, part.shape()), part);
}

/// Memory for the part of a data set that a rank wants.
using MakeTarget = std::function<Tensor(const StateDict::Entry* own, const Shape& sizes, DType)>;

Tensor new_tensor(const StateDict::Entry* /*own*/, const Shape& sizes, DType dtype) {
  return Tensor::empty(sizes, dtype);
}

Tensor own_tensor(const StateDict::Entry* own, const Shape& sizes, DType dtype) {
  const bool fits = own && own->tensor.defined() && own->tensor.device() == Device{} &&
                    own->tensor.layout() == Layout::plain && own->tensor.dtype() == dtype &&
                    own->tensor.shape() == sizes;
  return fits ? own->tensor : Tensor::empty(sizes, dtype);
}

/// `hashes` of the file, by rank. Throws CheckpointError, on all ranks alike.
void expect_one_file(const std::vector<std::uint64_t>& hashes, const std::filesystem::path& path) {
  const auto other = std::ranges::find_if(
      hashes, [&](std::uint64_t of_rank) { return of_rank != hashes.front(); });
  if (other == hashes.end()) return;
  throw Agreed<CheckpointError>(
      "cannot resume: " + path.string() + " is another file on rank " +
      std::to_string(other - hashes.begin()) +
      " than on rank 0. Name a file that all ranks see, or copy it to all "
      "nodes.");
}

CheckpointContents load(ProcessGroup& group, const std::filesystem::path& path,
                        const StateDict& model, const StateDict& optimizer,
                        const MakeTarget& make_target) {
  CheckpointContents contents;
  Shared shared;
  const auto read_share = [&] {
    const CheckpointFile file(path);
    read_facts(file, contents);
    for_each_tensor(file.manifest(), contents,
                    [&](const DatasetEntry& entry, std::string& name, StateDict& state) {
                      const auto* own = (&state == &contents.model ? model : optimizer).find(name);
                      const bool is_part =
                          own && own->placement.sharded && own->placement.global == entry.shape;
                      const Tensor target = make_target(
                          own, is_part ? own->tensor.shape() : entry.shape, entry.dtype);
                      if (is_part) {
                        read_part(file, entry, own->placement, target);
                      } else if (Shared::can_hold(entry)) {
                        shared.add(entry, target);
                      } else {
                        const Region whole = Region::whole(entry.shape);
                        file.read(entry, std::span(&whole, 1), target);
                      }
                      state.insert(std::move(name), target, is_part ? own->placement : Placement{});
                    });
    shared.read(group, file);
    return file.hash();
  };
  expect_one_file(agree(group, read_share, refuse_with("cannot resume")), path);
  shared.exchange(group);
  return contents;
}

}  // namespace

CheckpointContents load_facts(const CheckpointFile& file) {
  CheckpointContents contents;
  read_facts(file, contents);
  return contents;
}

CheckpointContents load_checkpoint(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  CheckpointContents contents;
  read_facts(file, contents);
  for_each_tensor(file.manifest(), contents,
                  [&](const DatasetEntry& entry, std::string& name, StateDict& state) {
                    state.insert(std::move(name), file.read(entry));
                  });
  return contents;
}

CheckpointContents load_checkpoint(ProcessGroup& group, const std::filesystem::path& path,
                                   const StateDict& model, const StateDict& optimizer) {
  return load(group, path, model, optimizer, new_tensor);
}

CheckpointContents load_checkpoint_in_place(ProcessGroup& group, const std::filesystem::path& path,
                                            const StateDict& model, const StateDict& optimizer) {
  return load(group, path, model, optimizer, own_tensor);
}

std::string verify_checkpoint(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  std::string not_finite;
  for (const auto& entry : file.manifest().datasets) {
    const bool finite = file.verify(entry);
    if (not_finite.empty() && !finite && entry.is_state()) not_finite = entry.path;
  }
  return not_finite;
}

}  // namespace lockstep
