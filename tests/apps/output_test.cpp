// Standard output that cannot be written: a full disk (/dev/full), a reader that has gone, a closed
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>

namespace lockstep::test {
namespace {

using Command = std::vector<std::string>;

/// Runs the command with stdout set up by `script`, which ends with "$@".
Finished in_shell(const std::string& script, const Command& command) {
  Command all{"bash", "-c", script, "bash"};
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}
constexpr const char* full_disk = "exec \"$@\" >/dev/full";
constexpr const char* closed = "exec \"$@\" >&-";
constexpr const char* nobody = "exec 3> >(:); wait $!; exec \"$@\" >&3 3>&-";

Command tool(const Command& arguments) {
  Command command{built("apps/lockstep")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Without mpiexec, whose own handling of stdout is not tested here.
Command alone(const std::string& program, const Command& arguments) {
  Command command{built(program)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// All commands that print and end. Runs in `scratch` give them a checkpoint and flight rings.
std::vector<Command> what_only_prints(const ScratchFolder& scratch) {
  const std::string deck = source("inputs/synthetic.toml");
  const std::string good = scratch.file("run"), killed = scratch.file("killed");
  EXPECT_EQ(classify(1, small_run(good)).exit_code, 0);
  static_cast<void>(
      run(app(2, "tests/apps/misbehave", small_run(killed)), {{"MISBEHAVE", "kill 1 7"}}));
  const std::string checkpoint = good + "/checkpoints/step-00000040.h5";
  std::vector<Command> commands{tool({"deck", "reference"}),
                                tool({"deck", "check", deck}),
                                tool({"model", "describe", deck}),
                                tool({"checkpoint", "inspect", checkpoint}),
                                tool({"checkpoint", "verify", checkpoint}),
                                tool({"checkpoint", "latest", good}),
                                tool({"checkpoint", "diff", checkpoint, checkpoint}),
                                tool({"flight", killed}),
                                tool({"flight", killed, "--json"}),
                                tool({"doctor"}),
                                tool({"doctor", "--json"}),
                                tool({"--help"}),
                                tool({"deck", "check", "--help"}),
                                tool({"--version"}),
                                alone("apps/heat_data", {"--help"}),
                                alone("apps/heat_data", {"--version"})};
  for (const char* verb :
       {"--help", "--version", "--dry-run", "--check-gradients", "--describe", "--doctor"}) {
    commands.push_back(alone("apps/classify", {deck, verb}));
  }
  return commands;
}

TEST(Output, ThatCannotBeWrittenIsExitOneAndASentence) {
  const ScratchFolder scratch;
  std::vector<Command> commands = what_only_prints(scratch);
  commands.push_back(alone("apps/heat_data", {scratch.file("heat.h5"), "--train", "5"}));
  for (const auto& [script, reason] :
       {std::pair(full_disk, "No space left on device"), {closed, "Bad file descriptor"}}) {
    for (const Command& command : commands) {
      const Finished finished = in_shell(script, command);
      EXPECT_EQ(finished.exit_code, 1) << command[0] << ' ' << command[1] << finished.output;
      EXPECT_TRUE(finished.says(std::string("standard output cannot be written: ") + reason))
          << command[0] << ' ' << command[1] << '\n'
          << finished.output;
      EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
      std::filesystem::remove(scratch.file("heat.h5"));
    }
  }
}

TEST(Output, WhoseReaderHasGoneQuietlyEndsCommandsThatOnlyPrint) {
  const ScratchFolder scratch;
  for (const Command& command : what_only_prints(scratch)) {
    const Finished finished = in_shell(nobody, command);
    EXPECT_EQ(finished.exit_code, 128 + 13) << command[0] << ' ' << command[1];
    EXPECT_EQ(finished.output, "") << command[0] << ' ' << command[1];
  }
}

TEST(Output, ThatCannotBeWrittenEndsNoTrainingAndIsToldOnceInItsLog) {
  for (const auto& [script, reason] : {std::pair(full_disk, "No space left on device"),
                                       {nobody, "Broken pipe"},
                                       {closed, "Bad file descriptor"}}) {
    const ScratchFolder scratch;
    const Finished finished =
        in_shell(script, alone("apps/classify", small_run(scratch.file("run"))));
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    const std::string sentence = std::string("standard output cannot be written: ") + reason;
    EXPECT_EQ(finished.output, "warning: " + sentence + ". The run goes on; log.txt has it all.\n");
    const std::string log = read_file(scratch.file("run/log.txt"));
    EXPECT_NE(log.find(sentence), std::string::npos) << log;
    EXPECT_EQ(log.find(sentence), log.rfind(sentence)) << log;
    for (const char* text : {"step 40/40", "test accuracy", "run folder"})
      EXPECT_NE(log.find(text), std::string::npos) << text << " in\n" << log;
    EXPECT_TRUE(completed(scratch.file("run")));
  }
}

TEST(Output, OfAFullPipeDelaysNoTrainingOnlyPrintingCommands) {
  const ScratchFolder scratch;
  const std::string full = "mkfifo " + scratch.file("pipe") + "; exec 3<>" + scratch.file("pipe") +
                           "; head -c 65536 /dev/zero >&3; ";
  const Finished finished =
      in_shell(full + "exec \"$@\" >&3", alone("apps/classify", small_run(scratch.file("run"))));
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(finished.output,
            "warning: standard output cannot be written: it accepts nothing (a full pipe or a "
            "stopped terminal). The run goes on; log.txt has it all.\n");
  EXPECT_NE(read_file(scratch.file("run/log.txt")).find("step 40/40"), std::string::npos);
  const Finished printed =
      in_shell("rm -f " + scratch.file("pipe") + "; " + full +
                   "\"$@\" >&3 & sleep 1; head -c 65536 <&3 >/dev/null; wait $!",
               tool({"deck", "reference"}));
  EXPECT_EQ(printed.exit_code, 0) << printed.output;
}

/// Two ranks, each with stdout set up by `script`. (mpiexec's own stdout is not tested here:
/// MPICH's ends the job.)
Finished two_ranks(const std::string& script, const Command& arguments) {
  Command command = app(2, "apps/classify", arguments);
  const auto program = std::find(command.begin(), command.end(), built("apps/classify"));
  command.insert(program, {"bash", "-c", script, "bash"});
  return run(command);
}

TEST(Output, OfTwoRanksThatCannotBeWrittenIsToldOnceAndEndsNoTraining) {
  for (const char* verb :
       {"--help", "--version", "--dry-run", "--check-gradients", "--describe", "--doctor"}) {
    const Finished finished = two_ranks(full_disk, {source("inputs/synthetic.toml"), verb});
    EXPECT_EQ(finished.exit_code, 1) << verb << '\n' << finished.output;
    EXPECT_TRUE(finished.says("standard output cannot be written")) << verb << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << verb << finished.output;
  }
  for (const char* script : {full_disk, nobody, closed}) {
    const ScratchFolder scratch;
    const Finished finished = two_ranks(script, small_run(scratch.file("run")));
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
    EXPECT_TRUE(completed(scratch.file("run")));
  }
}

TEST(Output, ErrorsThatCannotBeToldKeepTheirExitCode) {
  for (const Command& command :
       {tool({"deck", "check", "none.toml"}), tool({"no-such-verb"}), tool({"doctor", "none.toml"}),
        alone("apps/classify", {"none.toml"}), alone("apps/heat_data", {})}) {
    const Finished finished = in_shell("exec \"$@\" 2>/dev/full", command);
    EXPECT_EQ(finished.exit_code, 2) << command[0] << '\n' << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
