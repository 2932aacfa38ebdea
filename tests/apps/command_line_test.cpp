// Wrong words on the command line of the utilities: a sentence that names them, and exit code 2.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>

namespace lockstep::test {
namespace {

using Words = std::vector<std::string>;

TEST(CommandLine, AnUnknownCommandIsNamedWithTheNearestOneAlsoBeforeHelp) {
  struct Case {
    Words words;
    const char* said;
  };
  for (const auto& [words, said] : {
           Case{{"swep"}, "\"swep\" is not a command of lockstep. Did you mean sweep?"},
           Case{{"swep", "--help"}, "\"swep\" is not a command of lockstep. Did you mean sweep?"},
           Case{{"nothing", "-h"}, "\"nothing\" is not a command of lockstep. Known are: doctor, "},
           Case{{"deck", "chek", "--help"},
                "\"chek\" is not a command of lockstep deck. Did you mean check?"},
           Case{{"checkpoint", "verfy", "a.h5"},
                "\"verfy\" is not a command of lockstep checkpoint. Did you mean verify?"},
       }) {
    const Finished finished = lockstep_utility(words);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.output.starts_with("lockstep: " + std::string(said))) << finished.output;
    EXPECT_FALSE(finished.says("Usage")) << finished.output;
  }
  for (const Words& words : {Words{"--help"}, Words{"deck", "--help"}, Words{"deck", "check", "-h"},
                             Words{"--version"}}) {
    EXPECT_EQ(lockstep_utility(words).exit_code, 0) << words.front();
  }
}

TEST(CommandLine, AnErrorNamesTheProgramTheReasonAndTheHelp) {
  struct Case {
    Words words;
    const char* said;
  };
  for (const auto& [words, said] : {
           Case{{"apps/lockstep", "deck", "check", "--bogus"}, "lockstep: "},
           Case{{"apps/gpt", "sample", "run", "--temperature", "-1"},
                "gpt: --temperature: -1 is not a number from 0 to 1000. Try gpt --help.\n"},
           Case{{"apps/gpt", "tokens", "no_such.txt", "--output", "none"},
                "gpt: cannot open no_such.txt"},
           Case{{"apps/classify", "--bogus"},
                "classify: --bogus is not an option of classify. Try classify --help.\n"},
           Case{{"apps/classify", "--dry-run"},
                "classify: DECK is required. Try classify --help.\n"},
       }) {
    Words command{built(words.front())};
    command.insert(command.end(), words.begin() + 1, words.end());
    const Finished finished = run(command);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.output.starts_with(said)) << finished.output;
    EXPECT_FALSE(finished.says("Run with --help")) << finished.output;
  }
}

TEST(CommandLine, AnOutputThatIsADeviceOrALinkIsRefusedAndLeftAlone) {
  const ScratchFolder scratch;
  const std::string rows = scratch.write("metrics.jsonl", "{\"kind\":\"step\",\"step\":2}\n");
  const std::string link = scratch.file("link"), target = scratch.write("target", "mine");
  std::filesystem::create_symlink(target, link);
  for (const auto& [output, said] :
       {std::pair(std::string("/dev/full"),
                  "cannot write /dev/full: it is a device, pipe or socket, which a file never "
                  "replaces. Name a file."),
        std::pair(link, ": it is a symbolic link, which a file never replaces. Name the file")}) {
    const Finished finished = lockstep_utility({"export", rows, "-o", output});
    EXPECT_EQ(finished.exit_code, 1) << finished.output;
    EXPECT_TRUE(finished.says(said)) << finished.output;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(target), "mine");
}

}  // namespace
}  // namespace lockstep::test
