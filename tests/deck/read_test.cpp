#include <algorithm>
#include <cmath>

#include "sample.hpp"

namespace lockstep::test {
namespace {

TEST(DeckRead, AnEmptyDeckGivesTheDefaults) {
  const auto options = read_sample("");
  EXPECT_EQ(options.lr, 0.01);
  EXPECT_EQ(options.epochs, 10);
  EXPECT_TRUE(options.shuffle);
  EXPECT_EQ(options.dir, "runs/x");
  EXPECT_EQ(options.pace, Pace::slow);
  EXPECT_EQ(options.betas, (std::vector<double>{0.9, 0.999}));
}

TEST(DeckRead, EveryKindOfKeyIsRead) {
  const auto options = read_sample(R"(
[train]
lr = 0.5
epochs = 3
shuffle = false
dir = "a\tb"
backend = "threads"
pace = "fast"
sizes = [4, 5, 6]
betas = [0.5, 1]
files = ["x", 'y']
)");
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.epochs, 3);
  EXPECT_FALSE(options.shuffle);
  EXPECT_EQ(options.dir, "a\tb");
  EXPECT_EQ(options.backend, "threads");
  EXPECT_EQ(options.pace, Pace::fast);
  EXPECT_EQ(options.sizes, (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_EQ(options.betas, (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(options.files, (std::vector<std::string>{"x", "y"}));
}

TEST(DeckRead, ANumberMayBeWrittenAsAnInteger) { EXPECT_EQ(read_sample("train.lr = 1").lr, 1.0); }

TEST(DeckRead, InlineDottedAndHeaderTablesAreTheSame) {
  EXPECT_EQ(read_sample("train = {epochs = 3}").epochs, 3);
  EXPECT_EQ(read_sample("train.epochs = 3").epochs, 3);
  EXPECT_EQ(read_sample("[train]\nepochs = 3").epochs, 3);
}

TEST(DeckRead, WindowsLineEndsAndAByteOrderMarkAreLegal) {
  EXPECT_EQ(read_sample("\xEF\xBB\xBF[train]\r\nepochs = 3\r\n").epochs, 3);
}

TEST(DeckRead, ANestedTableIsReadByItsDottedName) {
  auto deck = Deck::parse("[a.b]\nmomentum = 4\n", "a.toml");
  EXPECT_EQ(deck.read<OtherOptions>("a.b").momentum, 4);
  EXPECT_NO_THROW(deck.check_all_read());
}

TEST(DeckRead, TheTopLevelIsATable) {
  auto deck = Deck::parse("momentum = 4\n", "a.toml");
  EXPECT_EQ(deck.read<OtherOptions>("").momentum, 4);
  EXPECT_NO_THROW(deck.check_all_read());
}

TEST(DeckRead, DefaultsMayBeHandedIn) {
  SampleOptions mine;
  mine.lr = 7;
  auto deck = Deck::parse("", "a.toml");
  EXPECT_EQ(deck.read<SampleOptions>("train", mine).lr, 7);
}

TEST(DeckRead, OutOfRangeNamesFileLineValueLimitAndDefault) {
  EXPECT_EQ(error_of("[train]\n\nlr = -1\n"),
            "a.toml:3: train.lr = -1 is out of range: it must be above 0. Correct it, or leave lr "
            "out for its default, 0.01.");
  EXPECT_EQ(error_of("[train]\ntimeout = 0.25\n"),
            "a.toml:2: train.timeout = 0.25 is out of range: it must be at least 0.5 and at most "
            "3600 s. Correct it, or leave timeout out for its default, 30.0.");
  EXPECT_EQ(error_of("[train]\nepochs = 1001\n"),
            "a.toml:2: train.epochs = 1001 is out of range: it must be at least 1 and at most "
            "1000. Correct it, or leave epochs out for its default, 10.");
}

TEST(DeckRead, LimitsThemselvesAreInsideExceptAboveMin) {
  EXPECT_EQ(read_sample("train.timeout = 0.5").timeout, 0.5);
  EXPECT_EQ(read_sample("train.timeout = 3600").timeout, 3600);
  EXPECT_EQ(read_sample("train.epochs = 1").epochs, 1);
  EXPECT_NE(error_of("train.lr = 0"), "");
}

TEST(DeckRead, RangesHoldForEachElementOfAList) {
  EXPECT_EQ(error_of("[train]\nbetas = [0.5,\n  1.5]\n"),
            "a.toml:3: train.betas[1] = 1.5 is out of range: it must be at least 0 and at most 1. "
            "Correct it, or leave betas out for its default, [0.9, 0.999].");
  EXPECT_NE(error_of("train.sizes = [1, 0]").find("train.sizes[1] = 0 is out of range"),
            std::string::npos);
}

TEST(DeckRead, NanIsNeverANumber) {
  EXPECT_EQ(error_of("[train]\nratio = nan\n"),
            "a.toml:2: train.ratio = nan is not a finite number. Correct it, or leave ratio out "
            "for its default, 0.5.");
  EXPECT_NE(error_of("train.clip = nan"), "");
  EXPECT_NE(error_of("train.betas = [nan]"), "");
}

TEST(DeckRead, InfinityIsLegalOnlyWhereTheDefaultOrALimitIsInfinite) {
  EXPECT_NE(error_of("train.ratio = inf").find("train.ratio = inf is not a finite number."),
            std::string::npos);
  EXPECT_NE(error_of("train.ratio = -inf"), "");
  EXPECT_NE(error_of("train.betas = [inf]"), "");
  EXPECT_TRUE(std::isinf(read_sample("train.clip = inf").clip));
  EXPECT_NE(error_of("train.clip = -inf").find("out of range"), std::string::npos);
}

TEST(DeckRead, AWrongTypeIsNamedAndTheMeantValueWritten) {
  EXPECT_EQ(error_of("[train]\nlr = \"0.1\"\n"),
            "a.toml:2: train.lr = \"0.1\" is a string, but must be a number. Write 0.1");
  EXPECT_EQ(error_of("[train]\nlr = \"fast\"\n"),
            "a.toml:2: train.lr = \"fast\" is a string, but must be a number. lr is: learning "
            "rate; its default is 0.01.");
  EXPECT_EQ(error_of("train.epochs = 1e3"),
            "a.toml:1: train.epochs = 1000.0 is a number with a point or exponent, but must be an "
            "integer. Write 1000");
  EXPECT_EQ(error_of("train.shuffle = 1"),
            "a.toml:1: train.shuffle = 1 is an integer, but must be true or false. Write true");
  EXPECT_EQ(error_of("train.shuffle = 'No'"),
            "a.toml:1: train.shuffle = \"No\" is a string, but must be true or false. Write false");
  EXPECT_EQ(error_of("train.dir = 12"),
            "a.toml:1: train.dir = 12 is an integer, but must be a string. Write \"12\"");
  EXPECT_EQ(error_of("train.sizes = 'b'"),
            "a.toml:1: train.sizes = \"b\" is a string, but must be a list of integers. sizes is: "
            "layer widths; its default is [1, 2].");
  EXPECT_EQ(error_of("train.sizes = [1, 'b']"),
            "a.toml:1: train.sizes[1] = \"b\" is a string, but must be an integer. sizes is: layer "
            "widths; its default is [1, 2].");
}

TEST(DeckRead, AQuotedNumberIsWrittenAsTomlTakesIt) {
  const auto remedy = [](const std::string& line) {
    const std::string message = error_of("train." + line);
    return message.substr(std::min(message.rfind("Write "), message.size()));
  };
  EXPECT_EQ(remedy("lr = \".1\""), "Write 0.1");
  EXPECT_EQ(remedy("lr = \"1.\""), "Write 1.0");
  EXPECT_EQ(remedy("lr = \"+.5\""), "Write 0.5");
  EXPECT_EQ(remedy("betas = \".5\""), "Write 0.5");
  EXPECT_EQ(remedy("epochs = \"007\""), "Write 7");
  EXPECT_EQ(remedy("epochs = \"1e3\""), "Write 1000");
  EXPECT_EQ(remedy("epochs = \"0.5\""), "") << "is no integer";
  EXPECT_EQ(remedy("lr = \"1-2\""), "") << "is no number";
}

TEST(DeckRead, ASingleValueIsAListOfOne) {
  const auto sample = read_sample("train.sizes = 12\ntrain.betas = 1\ntrain.files = 'a'");
  EXPECT_EQ(sample.sizes, std::vector<std::int64_t>{12});
  EXPECT_EQ(sample.betas, std::vector<double>{1.0});
  EXPECT_EQ(sample.files, std::vector<std::string>{"a"});
  EXPECT_NE(error_of("train.sizes = 0").find("train.sizes = 0 is out of range"), std::string::npos);
}

TEST(DeckRead, DatesListsAndTablesAreNoNumbers) {
  EXPECT_NE(error_of("train.lr = 1979-05-27").find("is a date or time, but must be a number"),
            std::string::npos);
  EXPECT_NE(error_of("train.lr = [0.1]").find("train.lr = [0.1] is a list, but must be a number"),
            std::string::npos);
  EXPECT_NE(error_of("train.files = [{a = 1}]").find("is a table, but must be a string"),
            std::string::npos);
  EXPECT_EQ(error_of("[train]\n[train.lr]\nx = 1\n"),
            "a.toml:2: train.lr is a table, but must be a number. Write lr = ... below [train].");
}

TEST(DeckRead, AValueWhereATableIsDueIsSaid) {
  EXPECT_EQ(error_of("\ntrain = 3"),
            "a.toml:2: train = 3 is a value, but train must be a table. Write its keys below a "
            "line [train].");
  EXPECT_NE(input_error([] {
              (void)Deck::parse("[a]\nb = 1", "a.toml").read<OtherOptions>("a.b");
            }).find("a.toml:2: a.b = 1 is a value, but a.b must be a table."),
            std::string::npos);
}

TEST(DeckRead, AnUnknownChoiceIsAnsweredWithTheNearest) {
  EXPECT_EQ(error_of("[train]\npace = \"fsat\"\n"),
            "a.toml:2: train.pace = \"fsat\" is not one of \"slow\", \"fast\". Did you mean "
            "\"fast\"?");
  EXPECT_EQ(error_of("[train]\nbackend = \"carrier pigeon\"\n"),
            "a.toml:2: train.backend = \"carrier pigeon\" is not one of \"mpi\", \"threads\". Its "
            "default is \"mpi\".");
  EXPECT_EQ(error_of("[train]\npace = 1\n"),
            "a.toml:2: train.pace = 1 is an integer, but must be one of \"slow\", \"fast\".");
}

TEST(DeckRead, AStringHoldsNoNul) {
  EXPECT_NE(error_of(R"(train.dir = "a\u0000b")").find("holds a NUL character"), std::string::npos);
}

TEST(DeckRead, LongValuesAreShortenedBetweenCharacters) {
  std::string value;
  for (int i = 0; i < 1000; ++i) value += "\xC3\xA4";  // two bytes each
  const auto message = error_of("train.lr = \"" + value + "\"");
  EXPECT_LT(message.size(), 300U);
  EXPECT_NE(message.find("\xC3\xA4..."), std::string::npos);
}

TEST(DeckRead, WhereSaysFileAndLineOverrideOrDefault) {
  const auto deck = Deck::parse("[train]\n\nlr = 1\nepochs = 2", "a.toml", {"train.epochs=3"});
  EXPECT_EQ(deck.where("train", "lr"), "a.toml:3");
  EXPECT_EQ(deck.where("train", "epochs"), "--set");
  EXPECT_EQ(deck.where("train", "dir"), "the default");
  EXPECT_EQ(deck.where("nowhere", "dir"), "the default");
}

enum class Answer { automatic, yes, no };

struct AnswerOptions {
  Answer answer = Answer::automatic;
};

void declare(DeckTable& table, AnswerOptions& options) {
  table.choice("answer", options.answer,
               {{"auto", Answer::automatic}, {"true", Answer::yes}, {"false", Answer::no}},
               "whether");
}

TEST(DeckRead, AChoiceNamedTrueMayBeABoolean) {
  const auto answer = [](const std::string& toml) {
    Deck deck = Deck::parse(toml, "a.toml");
    const Answer read = deck.read<AnswerOptions>("x").answer;
    Deck again = Deck::parse(deck.resolved(), "resolved");
    EXPECT_EQ(again.read<AnswerOptions>("x").answer, read) << toml;
    return read;
  };
  EXPECT_EQ(answer(""), Answer::automatic);
  EXPECT_EQ(answer("x.answer = \"auto\""), Answer::automatic);
  for (const std::string quote : {"", "\""}) {
    EXPECT_EQ(answer("x.answer = " + quote + "true" + quote), Answer::yes);
    EXPECT_EQ(answer("x.answer = " + quote + "false" + quote), Answer::no);
  }
  EXPECT_NE(error_of("train.pace = true").find("is a boolean, but must be one of"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
