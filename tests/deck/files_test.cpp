#include <sys/stat.h>

#include "sample.hpp"

namespace lockstep::test {
namespace {

class DeckFiles : public InTemporaryFolder {};

std::int64_t epochs_of(const std::string& file) {
  return Deck::load(file).read<SampleOptions>("train").epochs;
}

TEST_F(DeckFiles, AnEmptyFileIsADeck) {
  write("a.toml", "");
  EXPECT_EQ(epochs_of("a.toml"), 10);
}

TEST_F(DeckFiles, AMissingDeckIsNamedWithTheWorkingFolder) {
  const auto message = load_error("inputs/a.toml");
  EXPECT_EQ(message,
            "the deck inputs/a.toml does not exist. Check the path; the working directory "
            "is " +
                std::filesystem::current_path().string() + ".");
}

TEST_F(DeckFiles, AFolderIsNoDeck) {
  std::filesystem::create_directory("inputs");
  EXPECT_EQ(load_error("inputs"), "inputs is a folder, not a deck. Name a .toml file in it.");
}

TEST_F(DeckFiles, APipeIsNoDeckAndIsNotWaitedFor) {
  ASSERT_EQ(mkfifo("pipe", 0600), 0);
  EXPECT_EQ(load_error("pipe"), "pipe is not a regular file. Name a .toml file.");
}

TEST_F(DeckFiles, ALinkToItselfIsSaid) {
  std::filesystem::create_symlink("loop", "loop");
  EXPECT_NE(load_error("loop").find("the deck loop cannot be opened: "), std::string::npos);
}

TEST_F(DeckFiles, BinaryIsRefusedWithItsOffset) {
  write("zero", std::string("a = 1\nb = \0", 11));
  EXPECT_EQ(load_error("zero"),
            "zero:2: byte 0x00 at offset 10 is not UTF-8 text. Decks are TOML text files; is this "
            "the right file?");
  write("latin1.toml", "# 10 \xB5m\n");
  EXPECT_NE(load_error("latin1.toml").find("latin1.toml:1: byte 0xb5 at offset 5"),
            std::string::npos);
}

TEST_F(DeckFiles, EveryKindOfIllFormedUtf8IsRefused) {
  // Lone continuation, overlong, surrogate, above U+10FFFF, truncated.
  for (const std::string_view bytes : {"\x80", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80",
                                       "\xF4\x90\x80\x80", "\xE2\x82", "\xFF\xFE"}) {
    write("a.toml", std::string("# ").append(bytes));
    EXPECT_NE(load_error("a.toml").find("at offset 2 is not UTF-8 text"), std::string::npos);
  }
  write("a.toml", "# \xC2\xB5 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEE\x80\x80");
  EXPECT_EQ(epochs_of("a.toml"), 10);
}

TEST_F(DeckFiles, AHugeFileIsRefusedBeforeItIsRead) {
  write("a.toml", "");
  std::filesystem::resize_file("a.toml", std::uintmax_t{1} << 40);  // sparse: takes no disk space
  EXPECT_EQ(load_error("a.toml"),
            "a.toml is not a deck: it has 1099511627776 bytes, and decks have at most 16777216 (16 "
            "MiB). Name a .toml file.");
}

TEST_F(DeckFiles, IncludesStartAtTheIncludingFilesFolder) {
  write("inputs/a.toml", "include = [\"base/b.toml\"]\n");
  write("inputs/base/b.toml", "include = [\"../c.toml\"]\n");
  write("inputs/c.toml", "[train]\nepochs = 7\n");
  EXPECT_EQ(epochs_of("inputs/a.toml"), 7);
}

TEST_F(DeckFiles, TheIncludingFileWinsThenTheLaterInclude) {
  write("a.toml", "include = [\"b.toml\", \"c.toml\"]\n[train]\nepochs = 1\n");
  write("b.toml", "[train]\nepochs = 2\nlr = 2\ndir = \"b\"\n");
  write("c.toml", "[train]\nepochs = 3\nlr = 3\n");
  auto deck = Deck::load("a.toml");
  const auto options = deck.read<SampleOptions>("train");
  EXPECT_EQ(options.epochs, 1);
  EXPECT_EQ(options.lr, 3);
  EXPECT_EQ(options.dir, "b");
  EXPECT_EQ(deck.where("train", "epochs"), "a.toml:3");
  EXPECT_EQ(deck.where("train", "lr"), "c.toml:3");
  EXPECT_EQ(deck.where("train", "dir"), "b.toml:4");
  EXPECT_NO_THROW(deck.check_all_read());  // include itself is no unknown key
}

TEST_F(DeckFiles, TwoIncludesMayShareABase) {
  write("a.toml", "include = [\"b.toml\", \"c.toml\"]\n");
  write("b.toml", "include = [\"d.toml\"]\n");
  write("c.toml", "include = [\"d.toml\"]\n");
  write("d.toml", "[train]\nepochs = 4\n");
  EXPECT_EQ(epochs_of("a.toml"), 4);
}

TEST_F(DeckFiles, AnErrorInAnIncludedFileNamesThatFile) {
  write("a.toml", "include = [\"b.toml\"]\n");
  write("b.toml", "[train]\nepochs = 0\n");
  EXPECT_EQ(input_error([] { (void)epochs_of("a.toml"); }).rfind("b.toml:2: train.epochs = 0", 0),
            0U);
}

TEST_F(DeckFiles, AMissingIncludeNamesTheLineThatAsksForIt) {
  write("inputs/a.toml", "\ninclude = [\"b.toml\"]\n");
  EXPECT_EQ(load_error("inputs/a.toml"),
            "inputs/a.toml:2: the deck inputs/b.toml does not exist. Paths in include start at the "
            "folder of the including file.");
}

TEST_F(DeckFiles, AnIncludeThatIsAFolderOrBinaryIsSaid) {
  std::filesystem::create_directory("d");
  write("a.toml", "include = [\"d\"]\n");
  EXPECT_EQ(load_error("a.toml"), "a.toml:1: d is a folder, not a deck. Name a .toml file in it.");
  write("a.toml", "include = [\"b\"]\n");
  write("b", "\xFF");
  EXPECT_EQ(load_error("a.toml").rfind("b:1: byte 0xff at offset 0", 0), 0U);
}

TEST_F(DeckFiles, ACircleOfIncludesIsPrinted) {
  write("a.toml", "include = [\"in/b.toml\"]\n");
  write("in/b.toml", "include = [\"c.toml\"]\n");
  write("in/c.toml", "\ninclude = [\"b.toml\"]\n");
  EXPECT_EQ(load_error("a.toml"),
            "in/c.toml:2: decks include each other in a circle: in/b.toml -> in/c.toml -> "
            "in/b.toml. Remove one of these includes.");
}

TEST_F(DeckFiles, ADeckThatIncludesItselfIsACircleUnderAnyName) {
  write("a.toml", "include = [\"./a.toml\"]\n");
  EXPECT_NE(load_error("a.toml").find("circle: a.toml -> a.toml."), std::string::npos);
  std::filesystem::create_symlink("a.toml", "alias.toml");
  write("a.toml", "include = [\"alias.toml\"]\n");
  EXPECT_NE(load_error("a.toml").find("circle: a.toml -> alias.toml."), std::string::npos);
}

TEST_F(DeckFiles, IncludesThatDoubleAtEveryLevelAreStopped) {
  for (int i = 0; i < 30; ++i) {
    const auto next = std::to_string(i + 1);
    write(std::to_string(i) + ".toml",
          "include = [\"" + next + ".toml\", \"" + next + ".toml\"]\n");
  }
  write("30.toml", "");
  EXPECT_NE(load_error("0.toml").find("more than 1000 decks are included"), std::string::npos);
}

TEST_F(DeckFiles, IncludeIsAListOfStringsOrOneString) {
  write("a.toml", "include = \"b.toml\"\n");
  EXPECT_NE(load_error("a.toml").find("b.toml"), std::string::npos) << "which does not exist";
  write("b.toml", "train.epochs = 3\n");
  EXPECT_EQ(Deck::load("a.toml").read<SampleOptions>("train").epochs, 3);
  write("a.toml", "include = [1]\n");
  EXPECT_NE(load_error("a.toml").find("a.toml:1: include[0] = 1 is an integer"), std::string::npos);
}

TEST_F(DeckFiles, IncludeBelowATableIsExplained) {
  write("a.toml", "[train]\ninclude = [\"b.toml\"]\n");
  auto deck = Deck::load("a.toml");
  (void)deck.read<SampleOptions>("train");
  EXPECT_EQ(input_error([&] { deck.check_all_read(); }),
            "a.toml:2: unknown key train.include. Includes belong above the first [table].");
}

TEST_F(DeckFiles, ADeckFromMemoryIncludesFromTheWorkingFolder) {
  write("b.toml", "[train]\nepochs = 5\n");
  EXPECT_EQ(read_sample("include = [\"b.toml\"]\n").epochs, 5);
}

}  // namespace
}  // namespace lockstep::test
