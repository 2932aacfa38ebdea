#include <lockstep/deck/kinds.hpp>

#include "sample.hpp"

namespace lockstep::test {
namespace {

// Shapes by their areas, in units of a grid.
struct CircleOptions {
  double radius = 1.0;
};
void declare(DeckTable& table, CircleOptions& o) {
  table.key("radius", o.radius, {.doc = "half the width", .min = 0.0});
}
struct BoxOptions {
  double width = 2.0, height = 3.0;
};
void declare(DeckTable& table, BoxOptions& o) {
  table.key("width", o.width, {.doc = "from left to right", .min = 0.0});
  table.key("height", o.height, {.doc = "from bottom to top", .min = 0.0});
}
struct SquareOptions {
  double width = 4.0;
};
void declare(DeckTable& table, SquareOptions& o) {
  table.key("width", o.width, {.doc = "of each side", .min = 0.0});
}

using ShapeKinds = Kinds<double(double)>;
ShapeKinds& shape_kinds() {
  static ShapeKinds kinds([](ShapeKinds& own) {
    own.add<CircleOptions>("circle", "round", [](const CircleOptions& o, double unit) {
      return 3.0 * o.radius * o.radius * unit * unit;
    });
    own.add<BoxOptions>("box", "with corners", [](const BoxOptions& o, double unit) {
      return o.width * o.height * unit * unit;
    });
    own.add<SquareOptions>("square", "a box", [](const SquareOptions& o, double unit) {
      return o.width * o.width * unit * unit;
    });
  });
  return kinds;
}
using ShapeKind = KindOf<shape_kinds>;

struct ShapeOptions {
  std::string colour = "red";
  ShapeKind kind;
  bool filled = false;
};
void declare(DeckTable& table, ShapeOptions& o) {
  table.key("colour", o.colour, {.doc = "of the line"});
  declare_kind(table, o.kind, "which shape");
  table.key("filled", o.filled, {.doc = "coloured inside"});
}

ShapeOptions read_shape(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  auto deck = Deck::parse(toml, "a.toml", overrides);
  auto options = deck.read<ShapeOptions>("shape");
  deck.check_all_read();
  return options;
}

TEST(DeckKinds, TheFirstIsTheDefaultAndTheDeckChooses) {
  EXPECT_EQ(read_shape("").kind.name(), "circle");
  EXPECT_EQ(read_shape("").kind.make(2.0), 12.0);
  const auto box = read_shape("[shape]\nkind = 'box'\nheight = 5\nfilled = true\n");
  EXPECT_EQ(box.kind.name(), "box");
  EXPECT_EQ(box.kind.make(1.0), 10.0);
  EXPECT_TRUE(box.filled);
  ASSERT_NE(box.kind.get_if<BoxOptions>(), nullptr);
  EXPECT_EQ(box.kind.get_if<BoxOptions>()->height, 5.0);
  EXPECT_EQ(box.kind.get_if<CircleOptions>(), nullptr);
}

TEST(DeckKinds, OptionsOfAKindAreAValue) {
  ShapeKind kind = BoxOptions{.width = 7.0, .height = 1.0};
  const ShapeKind copy = kind;
  kind = CircleOptions();
  EXPECT_EQ(copy.make(1.0), 7.0);
  EXPECT_EQ(kind.make(1.0), 3.0);
  EXPECT_EQ(ShapeKind::named("square").make(1.0), 16.0);
}

TEST(DeckKinds, OptionsThatWereGivenAreTheDefaultsOfTheirKind) {
  auto deck = Deck::parse("[shape]\nwidth = 10\n", "a.toml");
  const auto options = deck.read<ShapeOptions>("shape", {.kind = BoxOptions{.height = 0.5}});
  EXPECT_EQ(options.kind.make(1.0), 5.0);
}

TEST(DeckKinds, AKeyOfAnotherKindIsAnErrorThatNamesIt) {
  EXPECT_EQ(
      input_error([] { read_shape("[shape]\nkind = 'box'\nradius = 1\n"); }),
      "a.toml:3: shape.radius is a key of shape.kind = \"circle\", but shape.kind is \"box\". "
      "Remove the key, or choose that kind.");
  EXPECT_EQ(input_error([] { read_shape("[shape]\nwidth = 1\n"); }),
            "a.toml:2: shape.width is a key of shape.kind = \"box\", \"square\", but shape.kind is "
            "\"circle\", the default. Remove the key, or choose one of those kinds.");
  EXPECT_EQ(input_error([] { read_shape("[shape]\nradus = 1\n"); }),
            "a.toml:2: unknown key shape.radus. Did you mean radius?");
}

TEST(DeckKinds, AKindThatIsNotKnownIsAnswered) {
  EXPECT_EQ(
      input_error([] { read_shape("[shape]\nkind = 'boxy'\n"); }),
      "a.toml:2: shape.kind = \"boxy\" is not one of \"circle\", \"box\", \"square\". Did you "
      "mean \"box\"?");
  EXPECT_EQ(input_error([] { static_cast<void>(ShapeKind::named("boxy")); }),
            "there is no kind \"boxy\" here. Did you mean box?");
}

// This allows a deck to be tried with another kind.
TEST(DeckKinds, KeysOfTheKindThatIsReplacedArePassedOver) {
  EXPECT_EQ(read_shape("[shape]\nradius = 2\n", {"shape.kind='box'"}).kind.make(1.0), 6.0);
  EXPECT_EQ(
      read_shape("[shape]\nkind = 'square'\nwidth = 10\n", {"shape.kind='box'"}).kind.make(1.0),
      30.0);
  const std::string own_key =
      input_error([] { read_shape("[shape]\nkind = 'box'\n", {"shape.radius=1"}); });
  EXPECT_EQ(own_key.rfind("--set: shape.radius is a key of", 0), 0U) << own_key;
  const std::string both = input_error([] {
    read_shape("[shape]\n", {"shape.radius=1", "shape.kind='box'"});
  });
  EXPECT_EQ(both.rfind("--set: shape.radius is a key of", 0), 0U) << both;
}

class DeckKindsInFiles : public InTemporaryFolder {};

TEST_F(DeckKindsInFiles, AnIncludingDeckReplacesTheKindWithItsKeys) {
  write("base.toml", "[shape]\nkind = 'circle'\nradius = 2\n");
  write("box.toml", "include = ['base.toml']\n[shape]\nkind = 'box'\n");
  auto box = Deck::load("box.toml");
  EXPECT_EQ(box.read<ShapeOptions>("shape").kind.make(1.0), 6.0);
  EXPECT_NO_THROW(box.check_all_read());

  write("wrong.toml", "include = ['base.toml']\n[shape]\nwidth = 1\n");
  auto wrong = Deck::load("wrong.toml");
  static_cast<void>(wrong.read<ShapeOptions>("shape"));
  const auto message = input_error([&] { wrong.check_all_read(); });
  EXPECT_EQ(message.rfind("wrong.toml:3: shape.width is a key of", 0), 0U) << message;
}

TEST(DeckKinds, DecksOfEarlierVersionsHoldTheKeysOfAllKinds) {
  auto deck = Deck::parse("[shape]\nkind = 'box'\nradius = 1\nwidth = 1\nsize = 1\n", "a.toml");
  static_cast<void>(deck.read<ShapeOptions>("shape"));
  const auto message = input_error([&] { deck.check_all_read(KeysOfOtherKinds::passed_over); });
  EXPECT_EQ(message.rfind("a.toml:5: unknown key shape.size.", 0), 0U) << message;
}

TEST(DeckKinds, ResolvedHoldsTheKindsOwnKeysAndReadsBackTheSame) {
  auto deck = Deck::parse("[shape]\nkind = 'box'\nwidth = 1\n", "a.toml");
  static_cast<void>(deck.read<ShapeOptions>("shape"));
  const auto resolved = deck.resolved();
  EXPECT_EQ(
      resolved,
      "[shape]\ncolour = \"red\"\nkind = \"box\"\nwidth = 1.0\nheight = 3.0\nfilled = false\n");
  auto again = Deck::parse(resolved, "again.toml");
  static_cast<void>(again.read<ShapeOptions>("shape"));
  EXPECT_NO_THROW(again.check_all_read());
  EXPECT_EQ(again.hash(), deck.hash());
}

TEST(DeckKinds, TheReferenceHasASectionAKind) {
  DeckReference reference;
  reference.add<ShapeOptions>("shape", "What is drawn.", {.kind = BoxOptions{.height = 9.0}});
  EXPECT_EQ(reference.markdown(), R"(## `[shape]`

What is drawn.

| key | type | default | range | meaning |
|---|---|---|---|---|
| `colour` | string | `"red"` | | of the line |
| `kind` | string | `"box"` | one of "circle", "box", "square" | which shape |
| `filled` | boolean | `false` | | coloured inside |

### `[shape]` with `kind = "circle"`

round

| key | type | default | range | meaning |
|---|---|---|---|---|
| `radius` | number | `1.0` | at least 0 | half the width |

### `[shape]` with `kind = "box"`

with corners

| key | type | default | range | meaning |
|---|---|---|---|---|
| `width` | number | `2.0` | at least 0 | from left to right |
| `height` | number | `9.0` | at least 0 | from bottom to top |

### `[shape]` with `kind = "square"`

a box

| key | type | default | range | meaning |
|---|---|---|---|---|
| `width` | number | `4.0` | at least 0 | of each side |
)");
}

TEST(DeckKinds, ADeckToBeginWithHasTheKeysOfItsKind) {
  DeckReference reference;
  reference.add<ShapeOptions>("shape", "What is drawn.");
  const auto round = reference.commented_deck({});
  EXPECT_NE(round.find("\n#radius = 1.0 "), std::string::npos) << round;
  EXPECT_EQ(round.find("width = "), std::string::npos) << round;
  const auto box = reference.commented_deck({{"shape.kind", "\"box\""}, {"shape.width", "8.0"}});
  EXPECT_NE(box.find("\nwidth = 8.0 "), std::string::npos) << box;
  EXPECT_NE(box.find("\n#height = 3.0 "), std::string::npos) << box;
  EXPECT_EQ(box.find("radius"), std::string::npos) << box;
  EXPECT_LT(box.find("\nkind = "), box.find("\nwidth = "));
  EXPECT_LT(box.find("\nwidth = "), box.find("\n#filled = "));
  EXPECT_THROW(static_cast<void>(reference.commented_deck({{"shape.width", "8.0"}})), Error);
  EXPECT_EQ(input_error([&] {
              static_cast<void>(reference.commented_deck({{"shape.kind", "\"bix\""}}));
            }),
            "there is no shape.kind = \"bix\". Did you mean \"box\"?");
}

TEST(DeckKinds, ANameAndATypeOfOptionsStandForOneKind) {
  ShapeKinds kinds;
  const auto area = [](const auto& options, double) { return options.width; };
  kinds.add<BoxOptions>("box", "with corners", area);
  EXPECT_THROW(kinds.add<BoxOptions>("crate", "another name", area), Error);
  EXPECT_THROW(kinds.add<SquareOptions>("box", "other options", area), Error);
  EXPECT_EQ(kinds.all().size(), 1U);
  EXPECT_THROW(static_cast<void>(kinds.of(typeid(SquareOptions))), Error);
}

}  // namespace
}  // namespace lockstep::test
