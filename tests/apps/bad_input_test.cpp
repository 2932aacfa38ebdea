// Wrong input by users gives one sentence with place and remedy, the documented exit code, and
// leaves nothing behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <apps/fault.hpp>
#include <apps/small_run.hpp>
#include <filesystem>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

void expect_refused(const Finished& run, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(run.exit_code, exit_code) << run.output;
  for (const auto& part : parts)
    EXPECT_TRUE(run.says(part)) << "no '" << part << "' in:\n" << run.output;
  EXPECT_FALSE(run.says("terminate called")) << run.output;
  EXPECT_LT(run.seconds, 2 * soon_s) << "start-up included";
}

struct BadOption {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> parts;
};

class BadSetting : public testing::TestWithParam<BadOption> {};

TEST_P(BadSetting, IsExitCodeTwoWithASentenceOnAllRanks) {
  const ScratchFolder scratch;
  const Finished run = classify(2, small_run(scratch.file("run"), GetParam().arguments));
  expect_refused(run, 2, GetParam().parts);
  EXPECT_FALSE(fs::exists(scratch.file("run/summary.json"))) << "a run was half started";
}

INSTANTIATE_TEST_SUITE_P(
    Deck, BadSetting,
    testing::Values(
        BadOption{"UnknownKey", {"--set", "train.epoch=3"}, {"train.epoch", "epochs"}},
        BadOption{"UnknownTable", {"--set", "optimiser.lr=0.1"}, {"optimiser", "optimizer"}},
        BadOption{"WrongType", {"--set", "train.epochs=\"many\""}, {"train.epochs"}},
        BadOption{"OutOfRange", {"--set", "optimizer.lr=-1"}, {"optimizer.lr", "-1"}},
        BadOption{"EndlessEpochs",
                  {"--set", "train.epochs=9223372036854775807"},
                  {"train.epochs", "at most 1000000000"}},
        BadOption{"EndlessSteps",
                  {"--set", "train.accumulate=9223372036854775807"},
                  {"train.accumulate", "at most 65536"}},
        BadOption{"EndlessShards",
                  {"--set", "train.shards=9223372036854775806"},
                  {"train.shards", "at most 65536"}},
        BadOption{"SeedBeyond64Bits",
                  {"--set", "train.seed=18446744073709551623"},
                  {"18446744073709551623", "9223372036854775807"}},
        BadOption{"WarmUpBeyondTheEnd",
                  {"--set", "schedule.kind=\"cosine\"", "--set", "schedule.warmup=5"},
                  {"warmup = 5 epochs is longer than the run of 4"}},
        BadOption{"NotANumber", {"--set", "optimizer.lr=nan"}, {"optimizer.lr"}},
        BadOption{"BareWord", {"--set", "run.dir=here"}, {"run.dir", "\""}},
        BadOption{"BatchOfZero", {"--set", "train.batch_size=0"}, {"train.batch_size"}},
        BadOption{"BatchLargerThanTheDataWithDropLast",
                  {"--set", "train.batch_size=1000", "--set", "train.drop_last=true"},
                  {"1000", "570", "drop_last"}},
        BadOption{"UnknownModel", {"--set", "model.kind=\"resnet20\""}, {"resnet20", "convnet"}},
        BadOption{"ImagesTooSmallForTheModel",
                  {"--set", "data.synthetic_image_size=9"},
                  {"convnet", "[1, 9, 9]"}},
        BadOption{"UnknownDevice",
                  {"--set", "run.device=\"gpu\""},
                  {"run.device = \"gpu\"", "\"cuda\"", "\"sim\""}},
        BadOption{"DeviceWithoutANumber",
                  {"--set", "run.device=\"sim:\""},
                  {"run.device = \"sim:\"", "\"cuda:1\""}},
        BadOption{"DeviceThatIsNotThere",
                  {"--set", "run.device=\"sim:9\""},
                  {"run.device = \"sim:9\"", "sim:0 to sim:7"}},
        BadOption{"OneDeviceForAllRanks",
                  {"--set", "run.device=\"sim:1\""},
                  {"ranks 0, 1 of", "on sim:1", "run.device_sharing"}},
        BadOption{"DeviceMemoryOfTheHost",
                  {"--set", "run.device=\"cpu\"", "--set", "run.device_memory=1000000"},
                  {"run.device_memory", "on the host"}},
        BadOption{
            "TooLittleDeviceMemory",
            {"--set", "run.device=\"sim\"", "--set", "run.device_memory=100000"},
            {"run.device_memory = ", "parameters, gradients", "optimizer state and of 2 batches"}},
        BadOption{"NegativeDeviceMemory",
                  {"--set", "run.device=\"sim\"", "--set", "run.device_memory=-1"},
                  {"run.device_memory", "-1"}},
        BadOption{"DeviceMemoryInWords",
                  {"--set", "run.device=\"sim\"", "--set", "run.device_memory=\"1 GB\""},
                  {"run.device_memory", "integer"}},
        BadOption{
            "GraphsInWords", {"--set", "run.graphs=\"yes\""}, {"run.graphs", "true or false"}},
        BadOption{"Tf32InWords", {"--set", "run.tf32=\"on\""}, {"run.tf32", "true or false"}},
        BadOption{"UnknownLayout",
                  {"--set", "run.layout=\"channels_last\""},
                  {"run.layout", "channels_last", "\"plain\""}},
        BadOption{"UnknownOption", {"--resum"}, {"--resum", "--help"}},
        BadOption{"ResumeFromAnEmptyVariable", {"--resume="}, {"--resume=", "no file"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BadDevice, WithoutCudaIsRefusedBySuchABuild) {
  const ScratchFolder scratch;
  if (has_cuda_runtime()) GTEST_SKIP() << "this build has CUDA";
  expect_refused(classify(2, small_run(scratch.file("run"), {"--set", "run.device=\"cuda\""})), 2,
                 {"run.device = \"cuda\"", "no CUDA", "LOCKSTEP_ENABLE_CUDA"});
}

TEST(BadDevice, MoreRanksThanDevicesAreRefused) {
  const ScratchFolder scratch;
  std::vector<std::string> arguments =
      small_run(scratch.file("run"), {"--set", "run.device=\"sim\"", "--ranks-as-threads", "9"});
  expect_refused(classify(1, arguments), 2, {"ranks 0, 8 of", "on sim:0", "run.device_sharing"});
}

struct BadFile {
  const char* name;
  std::string text;
  std::vector<std::string> parts;
};

class BadDeck : public testing::TestWithParam<BadFile> {};

TEST_P(BadDeck, IsExitCodeTwoNamingFileAndLine) {
  const ScratchFolder scratch;
  const std::string deck = scratch.write("deck.toml", GetParam().text);
  expect_refused(classify(2, {deck}), 2, GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Deck, BadDeck,
    testing::Values(
        BadFile{"DuplicateKey", "[train]\nepochs = 1\nepochs = 2\n", {"deck.toml:3", "epochs"}},
        BadFile{"NotToml", "[train\nepochs = 1\n", {"deck.toml:1"}},
        BadFile{"WrongType", "[train]\n\nepochs = 1.5\n", {"deck.toml:3", "train.epochs"}},
        BadFile{"IncludesItself", "include = [\"deck.toml\"]\n", {"deck.toml", "include"}},
        BadFile{"Binary", std::string("\x7f\x45\x4c\x46\0\0\1", 7), {"deck.toml"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Deck, MissingOneOrAFolderIsExitCodeTwo) {
  const ScratchFolder scratch;
  expect_refused(classify(2, {scratch.file("none.toml")}), 2, {"none.toml"});
  expect_refused(classify(2, {scratch.path()}), 2, {scratch.path(), "folder"});
  expect_refused(classify(1, {}), 2, {"DECK"});
}

TEST(Message, ThatIsVeryLongLosesItsMiddle) {
  const ScratchFolder scratch;
  const std::string name(20'000, 'k');
  const Finished dir = classify(2, small_run(name));
  expect_refused(dir, 2, {"the run folder kkk", "bytes are left out", "--set 'run.dir=\"...\"'"});
  const Finished file = classify(2, small_run(scratch.file("run"), {"--resume=" + name}));
  expect_refused(file, 4, {"kkk", "bytes are left out", "too long"});
  for (const Finished& run : {dir, file}) EXPECT_LT(run.output.size(), 2300U);
}

// A path that is not a file must neither block (a pipe) nor be read for ever (a device).
TEST(Checkpoint, ThatIsAPipeADeviceOrAFolderIsRefusedAtOnceByEveryTool) {
  const ScratchFolder scratch;
  const std::string run_dir = scratch.file("run"), checkpoints = run_dir + "/checkpoints";
  const std::vector<std::string> short_run{"--set", "train.epochs=1"};
  ASSERT_EQ(classify(2, small_run(run_dir, short_run)).exit_code, 0);
  ASSERT_EQ(mkfifo((checkpoints + "/step-00000090.h5").c_str(), 0600), 0);
  fs::create_directory(checkpoints + "/step-00000091.h5");
  fs::create_symlink("/dev/zero", checkpoints + "/step-00000092.h5");
  for (const std::string number : {"90", "91", "92"}) {
    const std::string name = checkpoints + "/step-000000" + number + ".h5";
    const bool is_folder = number == "91";
    const int code = is_folder ? 2 : 4;
    const std::vector<std::string> said{"lockstep: ", name, is_folder ? " is a folder: " : ""};
    for (const std::string verb : {"inspect", "verify"})
      expect_refused(lockstep_utility({"checkpoint", verb, name}), code, said);
    const std::string good = checkpoints + "/step-00000010.h5", out = scratch.file("out.h5");
    expect_refused(lockstep_utility({"checkpoint", "diff", good, name}), code, said);
    for (const std::string verb : {"export", "import"})
      expect_refused(lockstep_utility({"checkpoint", verb, name, "-o", out}), 4, {name});
    EXPECT_FALSE(fs::exists(out));
    expect_refused(classify(2, small_run(scratch.file("other"), {"--resume=" + name})), 4, {name});
  }
  const Finished resumed = classify(2, small_run(run_dir, {"--resume", "--set", "train.epochs=2"}));
  expect_refused(resumed, 0,
                 {"skipped: ", "step-00000092.h5", "step-00000091.h5", "step-00000090.h5",
                  "resumed from " + checkpoints + "/step-00000010"});
}

Finished train_on(const std::string& folder) {
  return classify(2, {source("inputs/fashion_mnist.toml"), "--set", "data.path=\"" + folder + "\"",
                      "--set", "run.dir=\"" + folder + "/run\""});
}

// A tiny valid data set in plain IDX: 2 images of 16 x 16, 2 labels, for training and test.
void write_idx_files(const ScratchFolder& folder) {
  const auto header = [](std::string dims, std::initializer_list<int> sizes) {
    std::string bytes{'\0', '\0', '\x08'};
    bytes += dims;
    for (const int size : sizes)
      bytes += {'\0', '\0', static_cast<char>(size / 256), static_cast<char>(size % 256)};
    return bytes;
  };
  for (const char* split : {"train", "t10k"}) {
    folder.write(std::string(split) + "-images-idx3-ubyte",
                 header("\x03", {2, 16, 16}) + std::string(512, 'x'));
    folder.write(std::string(split) + "-labels-idx1-ubyte",
                 header("\x01", {2}) + std::string("\x01\x02"));
  }
}

TEST(Checkpoint, AToleranceThatIsNoNumberOfAtLeastZeroIsExitCodeTwo) {
  for (const std::string tolerance : {"nan", "-1", "1e-6x"}) {
    expect_refused(
        lockstep_utility({"checkpoint", "diff", "--tolerance", tolerance, "a.h5", "b.h5"}), 2,
        {"--tolerance", tolerance});
  }
}

TEST(Data, MissingFolderNamesThePackageAndTheFiles) {
  const ScratchFolder scratch;
  expect_refused(train_on(scratch.file("nowhere")), 2, {"train-images-idx3-ubyte"});
  auto command = app(2, "apps/classify", {source("inputs/fashion_mnist.toml")});
  expect_refused(run(command, {{"LOCKSTEP_DATA", ""}, {"XDG_DATA_DIRS", scratch.path()}}), 2,
                 {"dataset-fashion-mnist", "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"});
}

struct Damage {
  const char* name;
  const char* file;
  std::string bytes;
  std::vector<std::string> parts;
};

class DamagedData : public testing::TestWithParam<Damage> {};

TEST_P(DamagedData, IsExitCodeTwoNamingTheFile) {
  const ScratchFolder scratch;
  write_idx_files(scratch);
  scratch.write(GetParam().file, GetParam().bytes);
  auto parts = GetParam().parts;
  parts.emplace_back(GetParam().file);
  expect_refused(train_on(scratch.path()), 2, parts);
}

INSTANTIATE_TEST_SUITE_P(
    Idx, DamagedData,
    testing::Values(Damage{"Truncated",
                           "train-images-idx3-ubyte",
                           std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x10\0\0\0\x10short", 21),
                           {"truncated"}},
                    Damage{"WrongMagic",
                           "train-images-idx3-ubyte",
                           std::string("\x12\x34\x08\x03\0\0\0\x02\0\0\0\x10\0\0\0\x10", 16),
                           {}},
                    Damage{
                        "AbsurdSize",
                        "train-images-idx3-ubyte",
                        std::string("\0\0\x08\x03\x7f\xff\xff\xff\x7f\xff\xff\xff\0\0\0\x10", 16),
                        {}},
                    Damage{"Empty", "train-labels-idx1-ubyte", "", {}},
                    Damage{"LabelCountDiffers",
                           "train-labels-idx1-ubyte",
                           std::string("\0\0\x08\x01\0\0\0\x03\1\2\3", 11),
                           {"3", "2"}}),
    [](const auto& test) { return std::string(test.param.name); });

/// One job of two programs, one rank each: `first` and `second` are commands made by app(1, ...).
Finished run_as_one_job(const std::vector<std::string>& first,
                        const std::vector<std::string>& second,
                        const std::vector<std::pair<std::string, std::string>>& environment = {},
                        const std::vector<std::string>& options_of_second = {}) {
  auto command = first;
  command.insert(command.end(), {":", "-n", "1"});
  command.insert(command.end(), options_of_second.begin(), options_of_second.end());
  const auto program =
      std::find(second.begin(), second.end(), "1") + 1;  // the arguments after -n 1
  command.insert(command.end(), program, second.end());
  return run(command, environment);
}

TEST(Data, MissingOnOneRankAloneEndsAllRanksNamingIt) {
  const ScratchFolder scratch;
  write_idx_files(scratch);
  const auto command = app(
      1, "apps/classify",
      {source("inputs/fashion_mnist.toml"), "--set", "run.dir=\"" + scratch.file("run") + "\""});
  const Finished finished = run_as_one_job(command, command, {{"LOCKSTEP_DATA", scratch.path()}},
                                           {"-env", "LOCKSTEP_DATA", scratch.file("nowhere")});
  expect_refused(finished, 2, {"rank 1 of 2", "nowhere"});
}

// They used to wait for each other in different calls.
TEST(BadDevice, RanksWhoseDecksDisagreeAreToldSo) {
  const ScratchFolder scratch;
  const auto refused = [&](const std::vector<std::string>& first,
                           const std::vector<std::string>& second,
                           const std::vector<std::string>& parts) {
    const auto command = [&](const std::vector<std::string>& settings) {
      return app(1, "apps/classify", small_run(scratch.file("run"), settings));
    };
    for (const auto& [a, b] : {std::pair(first, second), std::pair(second, first)})
      expect_refused(run_as_one_job(command(a), command(b)), 2, parts);
  };
  const std::string share = "run.device_sharing=true";
  refused({"--set", "run.device=\"sim\""}, {"--set", "run.device=\"cpu\""},
          {"devices of two kinds", "on sim:", "on host", "run.device"});
  refused({"--set", "run.device=\"sim:1\"", "--set", share}, {"--set", "run.device=\"sim:1\""},
          {"ranks 0, 1 of", "on sim:1", "run.device_sharing"});
  refused({"--set", "run.device=\"sim:9\""}, {"--set", "run.device=\"sim\""},
          {"run.device = \"sim:9\"", "rank "});
}

// It used to be taken for 2^64 - 1.
TEST(Option, ASeedBeyond64BitsIsExitCodeTwo) {
  const ScratchFolder scratch;
  for (const std::string seed : {"18446744073709551616", "99999999999999999999", "-1", "1.5", ""}) {
    for (const Finished& refused :
         {run(app(1, "apps/heat_data", {scratch.file("heat.h5"), "--seed", seed})),
          run(app(1, "apps/gpt", {"sample", scratch.path(), "--seed", seed}))}) {
      EXPECT_EQ(refused.exit_code, 2) << refused.output;
      EXPECT_TRUE(refused.says("--seed")) << refused.output;
    }
  }
  EXPECT_EQ(run(app(1, "apps/heat_data",
                    {scratch.file("heat.h5"), "--train", "1", "--test", "1", "--points", "2",
                     "--seed", "18446744073709551615"}))
                .exit_code,
            0);
}

TEST(Deck, AMillionHiddenLayersAreRefusedAtOnce) {
  const ScratchFolder scratch;
  std::string hidden = "1";
  for (int i = 1; i < 1'000'000; ++i) hidden += ",1";
  const std::string deck = scratch.write(
      "deck.toml", "[data]\nkind = \"synthetic\"\n[model]\nkind = \"mlp\"\nhidden = [" + hidden +
                       "]\n[run]\ndir = \"" + scratch.file("run") + "\"\n");
  const Finished run = classify(1, {deck, "--dry-run"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(run.says("has 1000000 hidden layers, but at most 10000"))
      << run.output.substr(0, 9999);
  EXPECT_LT(run.seconds, 60);
}

/// A table of 13 samples, and arguments for a run that normalises them by the batch.
std::vector<std::string> thirteen_samples(const ScratchFolder& scratch, const std::string& table) {
  return {scratch.write("deck.toml", "[data]\nkind = \"csv\"\ntest_set = false\npath = \"" + table +
                                         "\"\n[model]\nkind = \"mlp\"\nhidden = 4\n"
                                         "norm = \"batch\"\n[train]\nepochs = 2\nbatch_size = 4\n"),
          "--set", "run.dir=\"" + scratch.file("run") + "\""};
}

// It used to end in step 4 of the first epoch.
TEST(Launch, AStepOfOneSampleWithBatchNormIsForeseen) {
  const ScratchFolder scratch;
  std::string text = "x,y,kind\n";
  for (int i = 0; i < 13; ++i)
    text +=
        std::to_string(i % 5) + "," + std::to_string(i % 3) + "," + std::to_string(i % 2) + "\n";
  const auto arguments = thirteen_samples(scratch, scratch.write("t.csv", text));
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return more;
  };
  for (const int ranks : {1, 2}) {
    expect_refused(classify(ranks, with({})), 2,
                   {"step 4 of an epoch, a batch of 1 of the 13", "train.drop_last = true"});
    const Finished dropped = classify(ranks, with({"--set", "train.drop_last=true"}));
    EXPECT_EQ(dropped.exit_code, 0) << dropped.output;
  }
  expect_refused(classify(1, with({"--dry-run"})), 2, {"train.drop_last = true"});
  expect_refused(
      classify(2, with({"--set", "train.drop_last=true", "--set", "train.accumulate=2"})), 2,
      {"step 1 of an epoch, a batch of 4", "ddp.sync_batch_norm = true"});
  expect_refused(classify(2, with({"--set", "train.drop_last=true", "--set",
                                   "train.reduction=\"invariant\"", "--set", "train.shards=4"})),
                 2, {"step 1 of an epoch, a batch of 4", "lower train.accumulate or train.shards"});
  const Finished joined =
      classify(2, with({"--set", "train.drop_last=true", "--set", "train.accumulate=2", "--set",
                        "ddp.sync_batch_norm=true"}));
  EXPECT_EQ(joined.exit_code, 0) << joined.output;
}

// The first sample used to be taken for a header, and lost.
TEST(Data, ATableWithoutAHeaderLosesNoSample) {
  const ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += std::to_string(0.346 + i % 5) + "," + std::to_string(i % 2) + "\n";
  const std::string table = scratch.write("t.csv", text);
  auto arguments = thirteen_samples(scratch, table);
  expect_refused(classify(1, arguments), 2, {"line 1 of", "t.csv", "data.header = false"});
  arguments.insert(arguments.end(), {"--set", "data.header=false"});
  const Finished trained = classify(1, arguments);
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_TRUE(trained.says("12 training samples")) << trained.output;
  const Finished predicted = lockstep_utility(
      {"predict", scratch.file("run"), "--input", table, "--output", scratch.file("y.h5")});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_TRUE(predicted.says("12 samples")) << predicted.output;
}

// A limit beyond the clock's range used to end the run at once: "time limit" at step 0.
TEST(Launch, AHugeEndOfASlurmJobIsNoLimit) {
  const ScratchFolder scratch;
  for (const std::string end : {"99999999999999", "99999999999999999999"}) {
    const Finished trained =
        run(app(1, "apps/classify", small_run(scratch.file(end), {"--set", "train.epochs=1"})),
            {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_END_TIME", end}});
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
    EXPECT_FALSE(trained.says("time limit")) << trained.output;
  }
}

// squeue is asked during the run, gnuplot at its end; neither may delay it or stay behind.
TEST(Launch, HelperProgramsThatHangAreEndedAndTheRunIsComplete) {
  const ScratchFolder scratch;
  const std::string sleeper = scratch.file("bin/sleeper");
  for (const char* name : {"squeue", "gnuplot"}) {
    const std::string program =
        scratch.write(std::string("bin/") + name,
                      "#!/bin/sh\ntouch " + scratch.file(name) + "\n" + sleeper + " 1000\n");
    fs::permissions(program, fs::perms::owner_all);
  }
  fs::create_symlink("/bin/sleep", sleeper);
  for (const int ranks : {1, 2}) {
    const Finished trained = run(
        app(ranks, "apps/classify", small_run(scratch.file("run"), {"--set", "comm.timeout=20"})),
        {{"PATH", scratch.file("bin") + ":" + std::getenv("PATH")}, {"SLURM_JOB_ID", "1"}});
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
    EXPECT_TRUE(trained.says("gnuplot did not end within 10 s")) << trained.output;
    EXPECT_TRUE(fs::remove(scratch.file("squeue"))) << "it was asked";
    EXPECT_LT(trained.seconds, 2 * soon_s) << trained.output;
    for (const auto& entry : fs::directory_iterator("/proc"))
      EXPECT_EQ(read_of_process(entry.path() / "cmdline").find(sleeper), std::string::npos);
  }
}

TEST(Launch, AWorkingDirectoryThatIsGoneIsASentence) {
  const ScratchFolder scratch;
  std::vector<std::string> train = small_run(scratch.file("run"));
  train.insert(train.begin(), built("apps/classify"));
  const std::vector<std::string> look{built("apps/lockstep"), "checkpoint", "latest", "run"},
      write{built("apps/gpt"), "tokens", "/etc/passwd", "-o", "tokens"};
  const std::string gone = scratch.file("gone");
  const std::string in_it = "mkdir " + gone + "; cd " + gone + "; rmdir " + gone + "; exec ";
  for (const auto& command : {train, look, write}) {
    expect_refused(run({"sh", "-c", in_it + quoted(command)}), 2,
                   {"the working directory of this program", "in a folder that exists"});
  }
}

TEST(Launch, LatestTellsAMissingFolderFromOneWithoutCheckpoints) {
  const ScratchFolder scratch;
  const auto latest = [&](const std::string& folder) {
    return run({built("apps/lockstep"), "checkpoint", "latest", folder});
  };
  expect_refused(latest(scratch.file("mistyped")), 2, {"mistyped does not exist"});
  fs::create_directory(scratch.file("empty"));
  expect_refused(latest(scratch.file("empty")), 4, {"no intact checkpoint in"});
}

TEST(Launch, DecksThatDifferBetweenRanksAreExitCodeTwo) {
  const ScratchFolder scratch;
  const Finished finished = run_as_one_job(
      app(1, "apps/classify", small_run(scratch.file("run"))),
      app(1, "apps/classify", small_run(scratch.file("run"), {"--set", "optimizer.lr=0.125"})));
  expect_refused(finished, 2, {"the resolved deck differs between ranks", "rank 1"});
}

// One would inspect and end, and the other would wait for it until comm.timeout.
TEST(Launch, OptionsThatDifferBetweenRanksAreExitCodeTwo) {
  const ScratchFolder scratch;
  const auto classify_with = [&](std::vector<std::string> options) {
    return app(1, "apps/classify", small_run(scratch.file("run"), options));
  };
  for (const std::string verb :
       {"--describe", "--doctor", "--dry-run", "--check-gradients", "--resume", "--help"}) {
    expect_refused(run_as_one_job(classify_with({}), classify_with({verb})), 2,
                   {"rank 0 was given no option", "rank 1 " + verb, "the same options"});
  }
  expect_refused(
      run_as_one_job(classify_with({"--resume"}), classify_with({"--resume=step-00000010.h5"})), 2,
      {"rank 0 was given --resume, rank 1 --resume=FILE"});
  EXPECT_FALSE(fs::exists(scratch.file("run")));
}

TEST(Launch, ProgramsThatDifferBetweenRanksAreExitCodeTwo) {
  const ScratchFolder scratch;
  const std::string stale = scratch.write("classify", read_file(built("apps/classify")) + "x");
  fs::permissions(stale, fs::perms::owner_all);
  auto second = app(1, "apps/classify", small_run(scratch.file("run")));
  std::replace(second.begin(), second.end(), built("apps/classify"), stale);
  expect_refused(run_as_one_job(app(1, "apps/classify", small_run(scratch.file("run"))), second), 2,
                 {"the program differs between ranks", "rank 1"});
}

TEST(Launch, MoreRanksThanCoresAreWarnedOfAndTrainAllTheSame) {
  const ScratchFolder scratch;
  auto command =
      app(3, "apps/classify", small_run(scratch.file("run"), {"--set", "train.epochs=1"}));
  command.insert(command.begin(), {"taskset", "-c", "0"});
  const Finished finished = run(command);
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("3 ranks share 1 core(s)")) << finished.output;
}

TEST(RunFolder, ThatCannotBeWrittenIsExitCodeTwo) {
  const ScratchFolder scratch;
  expect_refused(classify(2, small_run("/proc/run")), 2, {"/proc/run", "run.dir"});
  expect_refused(classify(2, small_run(scratch.write("file", "x"))), 2, {"run.dir"});
}

TEST(Resume, DamagedOrForeignCheckpointIsExitCodeFour) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("run"), {"--set", "train.epochs=1"})).exit_code, 0);
  const std::string checkpoint = scratch.file("run/checkpoints/step-00000010.h5");
  expect_refused(classify(2, small_run(scratch.file("other"),
                                       {"--resume=" + checkpoint, "--set", "model.kind=\"mlp\""})),
                 4, {"fc1.weight is f32[50, 20]", "and 5 more"});
  const std::string bytes = read_file(checkpoint);
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 16);
  expect_refused(classify(2, small_run(scratch.file("other"),
                                       {"--resume=" + scratch.write("flipped.h5", flipped)})),
                 4, {"flipped.h5"});
  expect_refused(
      classify(2, small_run(scratch.file("other"),
                            {"--resume=" +
                             scratch.write("cut.h5", bytes.substr(0, bytes.size() * 2 / 3))})),
      4, {"cut.h5"});
  expect_refused(
      classify(2, small_run(scratch.file("other"), {"--resume=" + scratch.file("none.h5")})), 4,
      {"none.h5"});
  const Finished verify = lockstep_utility({"checkpoint", "verify", scratch.file("flipped.h5")});
  EXPECT_EQ(verify.exit_code, 4) << verify.output;
}

TEST(Launch, WorldOfOneUnderALauncherOfSeveralIsExitCodeTwoWithTheRemedy) {
  const ScratchFolder scratch;
  auto command = small_run(scratch.file("run"));
  command.insert(command.begin(), built("apps/classify"));
  expect_refused(run(command, {{"SLURM_STEP_NUM_TASKS", "4"}}), 2, {"alone", "srun --mpi=pmi2"});
}

TEST(BadInput, AFolderOfLocalCopiesWithoutANameIsASentence) {
  const Finished finished =
      lockstep_utility({"deck", "check", source("inputs/synthetic.toml"), "--set",
                        "checkpoint.local_dir=\"\"", "--set", "checkpoint.local_steps=1"});
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("checkpoint.local_dir is empty")) << finished.output;
}

TEST(BadInput, ANoteOfLocalCopiesThatIsAPipeIsNotWaitedFor) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), note = dir + "/checkpoints/local";
  fs::create_directories(dir + "/checkpoints");
  ASSERT_EQ(mkfifo(note.c_str(), 0600), 0);
  const Finished finished =
      run(app(1, "apps/classify", small_run(dir, {"--resume", "--set", "train.epochs=1"})), {}, 60);
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
}

TEST(BadInput, NamesOfTensorsReachNoTerminalAsCommands) {
  const ScratchFolder scratch;
  const std::string text =
      R"({"\u001b[2J\u0007w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string length{static_cast<char>(text.size()), 0, 0, 0, 0, 0, 0, 0};
  const std::string weights = scratch.write("w.safetensors", length + text + std::string(4, '\0'));
  const std::string other =
      scratch.write("empty.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"import", weights, "-o", scratch.file("w.h5")},
        {"diff", weights, other},
        {"inspect", scratch.file("\x1b[2J\x07w")}}) {
    std::vector<std::string> words{"checkpoint"};
    words.insert(words.end(), command.begin(), command.end());
    const Finished finished = lockstep_utility(words);
    EXPECT_NE(finished.exit_code, 0) << command.front();
    EXPECT_EQ(finished.output.find_first_of("\x1b\x07"), std::string::npos) << command.front();
    EXPECT_TRUE(finished.says("\\x1b[2J\\x07w")) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
