// Standard output that takes nothing: a full disk (/dev/full), a reader that has gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/small_run.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using Command = std::vector<std::string>;

/// The command with its stdout as `script` says, which ends with "$@".
Finished in_shell(const std::string& script, const Command& command) {
  Command all{"bash", "-c", script, "bash"};
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}
Finished to_full_disk(const Command& command) {
  return in_shell("exec \"$@\" >/dev/full", command);
}
Finished to_nobody(const Command& command) {
  return in_shell("exec 3> >(:); wait $!; exec \"$@\" >&3 3>&-", command);
}

Command tool(const Command& arguments) {
  Command command{built("apps/lockstep")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Alone, without mpiexec: what mpiexec does with its own stdout is not ours.
Command alone(const std::string& program, const Command& arguments) {
  Command command{built(program)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Everything that prints and ends. A run in `scratch` gives them a checkpoint.
std::vector<Command> what_only_prints(const ScratchFolder& scratch) {
  const std::string deck = source("inputs/synthetic.toml"), run = scratch.file("run");
  const std::string checkpoint = run + "/checkpoints/step-00000040.h5";
  std::vector<Command> commands{tool({"deck", "reference"}),
                                tool({"deck", "check", deck}),
                                tool({"model", "describe", deck}),
                                tool({"checkpoint", "inspect", checkpoint}),
                                tool({"checkpoint", "verify", checkpoint}),
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
  ASSERT_EQ(classify(1, small_run(scratch.file("run"))).exit_code, 0);
  std::vector<Command> commands = what_only_prints(scratch);
  commands.push_back(alone("apps/heat_data", {scratch.file("heat.h5"), "--train", "5"}));
  for (const Command& command : commands) {
    const Finished finished = to_full_disk(command);
    EXPECT_EQ(finished.exit_code, 1) << command[0] << ' ' << command[1] << '\n' << finished.output;
    EXPECT_TRUE(finished.says("standard output cannot be written: No space left on device"))
        << command[0] << ' ' << command[1] << '\n'
        << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
  }
}

TEST(Output, WhoseReaderHasGoneEndsWhatOnlyPrintsQuietly) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("run"))).exit_code, 0);
  for (const Command& command : what_only_prints(scratch)) {
    const Finished finished = to_nobody(command);
    EXPECT_EQ(finished.exit_code, 128 + 13) << command[0] << ' ' << command[1];
    EXPECT_EQ(finished.output, "") << command[0] << ' ' << command[1];
  }
}

TEST(Output, ThatCannotBeWrittenEndsNoTrainingAndIsToldOnceInItsLog) {
  for (const auto& [shell, reason] :
       {std::pair(&to_full_disk, "No space left on device"), {&to_nobody, "Broken pipe"}}) {
    const ScratchFolder scratch;
    const Finished finished = shell(alone("apps/classify", small_run(scratch.file("run"))));
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    const std::string sentence = std::string("standard output cannot be written: ") + reason;
    EXPECT_EQ(finished.output, "warning: " + sentence + ". The run goes on; log.txt has it all.\n");
    const std::string log = read_file(scratch.file("run/log.txt"));
    EXPECT_NE(log.find(sentence), std::string::npos) << log;
    EXPECT_EQ(log.find(sentence), log.rfind(sentence)) << log;
    for (const char* text : {"step 40/40", "test accuracy", "run folder"})
      EXPECT_NE(log.find(text), std::string::npos) << text << " in\n" << log;
    EXPECT_EQ(nlohmann::json::parse(read_file(scratch.file("run/summary.json")))["completed"],
              true);
  }
}

TEST(Output, TrainingUnderMpiexecEndsWellWhateverBecomesOfIt) {
  for (const char* script : {"\"$@\" | head -n 1", "exec \"$@\" >/dev/full"}) {
    const ScratchFolder scratch;
    const Finished finished = in_shell(std::string("set -o pipefail; ") + script,
                                       app(2, "apps/classify", small_run(scratch.file("run"))));
    const std::string summary = read_file(scratch.file("run/summary.json"));
    EXPECT_EQ(nlohmann::json::parse(summary)["completed"], true)
        << script << ": " << finished.exit_code << '\n'
        << finished.output;
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
