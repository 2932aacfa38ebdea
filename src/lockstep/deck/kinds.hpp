#pragma once
#include <any>
#include <concepts>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/deck/deck.hpp>

namespace lockstep {

/// Options that declare their keys on a deck's table, in a function beside their struct:
///   void declare(DeckTable& table, SgdOptions& options);
template <class Options>
concept DeclaredOptions = std::copyable<Options> && std::default_initializable<Options> &&
    requires(DeckTable& table, Options& options) {
  declare(table, options);
};

namespace detail {

/// These throw the Error, or InputError for a name, of Kinds' functions of the same names.
[[noreturn]] void refuse_second_kind(std::string_view name);
[[noreturn]] void refuse_unknown_kind(std::string_view name,
                                      const std::vector<std::string_view>& known);
[[noreturn]] void refuse_unknown_options();

}  // namespace detail

/// The kinds of a component that a deck can choose from, for example optimizers. A kind is its name
/// in decks, an options struct of its own, and a function that makes the object from the options
/// and `Arguments`. Any thread may add kinds; none is ever removed.
template <class Signature>
class Kinds;
/// The kinds of one family, by name: those of the library and those that a program registers.
template <class Made, class... Arguments>
class Kinds<Made(Arguments...)> {
 public:
  /// One kind: its name, the keys that it declares, and how it is made of their values.
  struct Kind {
    std::string name, doc;
    std::any defaults;
    void (*declare)(DeckTable&, std::any& options);
    std::function<Made(const std::any& options, Arguments...)> make;
  };

  Kinds() = default;
  /// Starts with Lockstep's own kinds, added by `add_own`.
  explicit Kinds(void (*add_own)(Kinds&)) { add_own(*this); }

  /// Throws Error if another kind has the same name or options type.
  template <DeclaredOptions Options, class Make>
  requires std::is_invocable_r_v<Made, const Make&, const Options&, Arguments...>
  void add(std::string name, std::string doc, Make make) {
    Kind kind{std::move(name), std::move(doc), Options(),
              [](DeckTable& table, std::any& options) {
                declare(table, *std::any_cast<Options>(&options));
              },
              [make = std::move(make)](const std::any& options, Arguments... arguments) -> Made {
                return make(*std::any_cast<Options>(&options),
                            std::forward<Arguments>(arguments)...);
              }};
    const std::lock_guard lock(mutex_);
    for (const Kind& other : kinds_) {
      if (other.name == kind.name || other.defaults.type() == typeid(Options))
        detail::refuse_second_kind(kind.name);
    }
    kinds_.push_back(std::move(kind));
  }

  /// In the order of addition; the first is the default.
  [[nodiscard]] std::vector<const Kind*> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<const Kind*> list;
    for (const Kind& kind : kinds_) list.push_back(&kind);
    return list;
  }
  /// Throws InputError for an unknown name.
  [[nodiscard]] const Kind& named(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const Kind* kind : all()) {
      if (kind->name == name) return *kind;
      names.push_back(kind->name);
    }
    detail::refuse_unknown_kind(name, names);
  }
  /// The kind with options of this type. Throws Error if there is none.
  [[nodiscard]] const Kind& of(const std::type_info& options) const {
    for (const Kind* kind : all()) {
      if (kind->defaults.type() == options) return *kind;
    }
    detail::refuse_unknown_options();
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Kind> kinds_;
};

/// The options of one of the kinds in kinds(), a function that returns a Kinds&. A value type.
template <auto kinds>
class KindOf {
 public:
  using Kind = typename std::remove_reference_t<decltype(kinds())>::Kind;

  /// The defaults of the first kind.
  KindOf() : KindOf(*kinds().all().front()) {}
  /// Throws Error if no kind has such options.
  template <class Options>
  requires(!std::same_as<Options, KindOf> && DeclaredOptions<Options>) KindOf(Options options)
      : kind_(&kinds().of(typeid(Options))), options_(std::move(options)) {}
  /// The kind's defaults. Throws InputError for an unknown name.
  [[nodiscard]] static KindOf named(std::string_view name) { return KindOf(kinds().named(name)); }

  [[nodiscard]] const std::string& name() const noexcept { return kind_->name; }
  /// nullptr if the kind has options of another type.
  template <class Options>
  [[nodiscard]] const Options* get_if() const noexcept {
    return std::any_cast<Options>(&options_);
  }
  template <class Options>
  [[nodiscard]] Options* get_if() noexcept {
    return std::any_cast<Options>(&options_);
  }
  /// The object made from these options.
  template <class... Arguments>
  [[nodiscard]] auto make(Arguments&&... arguments) const {
    return kind_->make(options_, std::forward<Arguments>(arguments)...);
  }
  /// Declares the kind's own keys.
  void declare_keys(DeckTable& table) { kind_->declare(table, options_); }

  /// Declares the key `kind`, and the keys of the kind that the table chooses.
  friend void declare_kind(DeckTable& table, KindOf& field, std::string_view doc) {
    const auto all = kinds().all();
    std::vector<DeckTable::Kind> list;
    std::size_t current = 0;
    for (const Kind* kind : all) {
      if (kind == field.kind_) current = list.size();
      list.push_back({kind->name, kind->doc, [kind](DeckTable& on) {
                        std::any options = kind->defaults;
                        kind->declare(on, options);
                      }});
    }
    table.kind("kind", list, current, doc, [&](std::size_t chosen) {
      if (chosen != current) field = KindOf(*all[chosen]);
      field.declare_keys(table);
    });
  }

 private:
  explicit KindOf(const Kind& kind) : kind_(&kind), options_(kind.defaults) {}

  const Kind* kind_;
  std::any options_;
};

}  // namespace lockstep
