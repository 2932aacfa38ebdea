// Divided models whose rank is killed at a random moment: by each form of saves they go on to the
// bits of the undisturbed run, and on another mesh to its curve.
#include <gtest/gtest.h>
#include <signal.h>

#include <apps/mesh_runs.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A deck on a mesh, and another mesh on which it can go on.
struct Deck {
  const char* name;
  int ranks;
  Words mesh;
  int other_ranks;
  Words other;
};

class MeshRestart : public MeshRuns {
 protected:
  [[nodiscard]] std::string dir(const std::string& name) const { return scratch_.file(name); }
  [[nodiscard]] std::string memory() const { return scratch_.file("memory"); }

  /// mpiexec and `program` on a small GPT, or an MLP.
  Words command(bool is_gpt, const std::string& program, int ranks, const std::string& name,
                const Words& sets, const Words& flags = {}) {
    const Words all = joined({"checkpoint.every_steps=4"}, sets);
    if (is_gpt)
      return app(ranks, program,
                 gpt_run(name, joined({"train.epochs=1", "log.every_steps=2"}, all), flags));
    const Words mlp = joined({"model.kind=\"mlp\"", "model.hidden=[64,48]", "train.epochs=2"}, all);
    return app(ranks, program, joined(small_run(dir(name), settings(name, mlp)), flags));
  }
  /// The rank processes of a run; its launcher, too, has their words.
  [[nodiscard]] std::vector<int> ranks_of(const std::string& name) const {
    std::vector<int> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string words = read_of_process(entry.path().string() + "/cmdline");
      const std::string first = words.substr(0, words.find('\0'));
      if (first.ends_with("misbehave") && words.find(dir(name) + '"') != std::string::npos)
        found.push_back(std::stoi(entry.path().filename().string()));
    }
    return found;
  }
  /// Kills one of the ranks at any moment between the first step and the end.
  void run_and_kill(const Words& command, const std::string& name) {
    auto finished = std::async(std::launch::async, [&] {
      return run(command, {{"MISBEHAVE_PACE", "10"}});  // no faster than a step of a larger model
    });
    const auto is_over = [&] {
      return finished.wait_for(std::chrono::milliseconds(2)) == std::future_status::ready;
    };
    const auto has_stepped = [&] {
      std::ifstream metrics(dir(name) + "/metrics.jsonl");
      return metrics.peek() != std::ifstream::traits_type::eof();
    };
    while (!is_over() && !has_stepped()) continue;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<>(0, 250)(random_)));
    const std::vector<int> ranks = ranks_of(name);
    if (!ranks.empty()) {
      kill(ranks[std::uniform_int_distribution<std::size_t>(0, ranks.size() - 1)(random_)],
           SIGKILL);
    }
    const Finished ended = finished.get();
    kills_ += ended.exit_code != 0 ? 1 : 0;
  }
  /// As if one of the nodes of one rank each were lost with its memory.
  void lose_a_node(int ranks) {
    const std::string node =
        "-" + std::to_string(std::uniform_int_distribution<>(0, ranks - 1)(random_)) + "-";
    if (!fs::exists(memory())) return;
    for (const auto& file : fs::directory_iterator(memory())) {
      const std::string of = file.path().filename();
      if (of.ends_with(node + "0.h5") || of.ends_with(node + "1.h5")) fs::remove(file.path());
    }
  }
  [[nodiscard]] CheckpointContents last(const std::string& name) const {
    fs::path newest;
    for (const auto& file : fs::directory_iterator(dir(name) + "/checkpoints"))
      if (file.path().extension() == ".h5") newest = std::max(newest, file.path());
    return load_checkpoint(newest);
  }

  void expect_goes_on(const Deck& deck) {
    const bool is_gpt = std::string(deck.name) == "gpt";
    const auto program = [&](int ranks, const std::string& name, const Words& sets,
                             const Words& flags = {}) {
      return good(run(command(is_gpt, "tests/apps/misbehave", ranks, name, sets, flags)));
    };
    std::string ones = "1";
    for (int r = 1; r < deck.ranks; ++r) ones += ", 1";
    const Words mesh = joined(deck.mesh, {"comm.pretended_nodes=[" + ones + "]"});
    program(deck.ranks, "whole", mesh);
    const std::vector<std::pair<std::string, Words>> forms{
        {"plain", {"checkpoint.async=false"}},
        {"async", {"checkpoint.every_steps=1"}},
        {"memory",
         {"checkpoint.every_steps=0", "checkpoint.local_steps=2",
          "checkpoint.local_dir=\"" + memory() + "\""}}};
    for (const auto& [form, sets] : forms) {
      SCOPED_TRACE(form + ", seed " + std::to_string(seed_));
      fs::create_directories(memory());
      const Words all = joined(mesh, sets);
      run_and_kill(command(is_gpt, "tests/apps/misbehave", deck.ranks, form, all), form);
      if (form == "memory") lose_a_node(deck.ranks);
      program(deck.ranks, form, all, {"--resume"});
      expect_same_state(last("whole"), last(form));
      EXPECT_EQ(last("whole").train.step, last(form).train.step);
    }
    SCOPED_TRACE("other mesh, seed " + std::to_string(seed_));
    const Words& memory_form = forms.back().second;
    run_and_kill(
        command(is_gpt, "tests/apps/misbehave", deck.ranks, "other", joined(mesh, memory_form)),
        "other");
    program(deck.other_ranks, "other", joined(deck.other, memory_form), {"--resume"});
    expect_same_curve("whole", "other", 1e-4);
    EXPECT_GT(kills_, 0) << "no run was killed before its end";
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  int kills_ = 0;
};

TEST_F(MeshRestart, TensorParallelMlpGoesOnWithTheSameBitsAndOnAnotherMeshAlongItsCurve) {
  expect_goes_on({"mlp", 2, {"mesh.tp=2"}, 1, {}});
}

TEST_F(MeshRestart, ShardedOptimizerGoesOnWithTheSameBitsAndOnAnotherMeshAlongItsCurve) {
  expect_goes_on({"mlp", 2, {"train.zero=1"}, 3, {"train.zero=1"}});
}

TEST_F(MeshRestart, ShardedModelGoesOnWithTheSameBitsAndOnAnotherMeshAlongItsCurve) {
  expect_goes_on({"mlp", 2, {"train.zero=3"}, 3, {"train.zero=2"}});
}

TEST_F(MeshRestart, ContextParallelGptGoesOnWithTheSameBitsAndOnAnotherMeshAlongItsCurve) {
  const Words no_dropout{"model.residual_dropout=0"};
  expect_goes_on(
      {"gpt", 2, joined(no_dropout, {"mesh.cp=2"}), 2, joined(no_dropout, {"mesh.tp=2"})});
}

TEST_F(MeshRestart, ProductsOnFourRanksGoOnWithTheSameBitsAndOnAnotherMeshAlongTheirCurve) {
  expect_goes_on({"mlp", 4, {"mesh.tp=2"}, 2, {"train.zero=1"}});
}

}  // namespace
}  // namespace lockstep::test
