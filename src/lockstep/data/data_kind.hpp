#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/data/dataset.hpp>
#include <lockstep/deck/kinds.hpp>

namespace lockstep {

class DataSource;
struct DataOptions;

/// Kinds of data by their names in decks.
using DataKinds = Kinds<std::unique_ptr<DataSource>()>;

/// All values of `[data] kind`: Lockstep's own, then those of register_data.
[[nodiscard]] DataKinds& data_kinds();

/// The options of one kind: a SyntheticOptions, a CsvOptions ... By default Fashion-MNIST's.
using DataKind = KindOf<data_kinds>;

/// The operations of one kind of data. `all` are the options of the whole table. All functions
/// throw InputError for missing or unfit data.
class DataSource {
 public:
  virtual ~DataSource() = default;
  [[nodiscard]] virtual Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) = 0;
  [[nodiscard]] virtual TargetKind targets(const DataOptions& all) = 0;
  /// The options, with the values that make() measured or derived filled in.
  [[nodiscard]] virtual DataKind as_found(const Datasets& sets) = 0;
};

/// Options of a kind of data that make it: make(all, kind, wanted) gives train, test, facts and
/// sample weights. `all` are the options of the whole table; for Sets::test they are those of
/// as_found. The options may also have
///   TargetKind targets(const DataOptions& all) const;  // without make()
///   void note(const Datasets& found);                  // as DataSource::as_found
template <class Options>
concept DataMaker = DeclaredOptions<Options> &&
    requires(const Options& options, const DataOptions& all) {
  { options.make(all, TargetKind::classes, Sets::test) } -> std::convertible_to<Datasets>;
};

/// The DataSource of one kind of data: calls what its options define.
template <DataMaker Options>
class DataSourceOf final : public DataSource {
 public:
  explicit DataSourceOf(const Options& options) : options_(options) {}

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) override {
    return options_.make(all, kind, wanted);
  }
  [[nodiscard]] TargetKind targets(const DataOptions& all) override {
    if constexpr (requires { options_.targets(all); }) {
      return options_.targets(all);
    } else {
      const Datasets sets = options_.make(all, TargetKind::classes, Sets::train_and_test);
      return sets.train->classes() > 0 ? TargetKind::classes : TargetKind::values;
    }
  }
  [[nodiscard]] DataKind as_found(const Datasets& sets) override {
    Options found = options_;
    if constexpr (requires { found.note(sets); }) found.note(sets);
    return found;
  }

 private:
  Options options_;
};

/// For kinds without tokens: throws InputError if a language model would be trained on them.
void expect_no_tokens(TargetKind kind);

template <DataMaker Options>
void add_data(DataKinds& kinds, std::string name, std::string doc) {
  kinds.add<Options>(std::move(name), std::move(doc), [](const Options& options) {
    return std::make_unique<DataSourceOf<Options>>(options);
  });
}

/// Adds a kind of data of your own to decks, as `kind = "name"`, and to make_datasets:
///   register_data<PendulumOptions>("pendulum", "computed trajectories");
/// Call once per process, before decks are read or options used. `doc` is one line for the
/// reference. Throws Error if the name, or the options, are another kind's.
template <DataMaker Options>
void register_data(std::string name, std::string doc) {
  add_data<Options>(data_kinds(), std::move(name), std::move(doc));
}

}  // namespace lockstep
