#include "job.hpp"

#include <algorithm>
#include <apps/results.hpp>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <sstream>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::reliability {
namespace {

namespace fs = std::filesystem;
using test::Finished;

constexpr const char* last_checkpoint = "/checkpoints/step-00000024.h5";

std::vector<std::string> tiny_run(const std::string& dir) {
  std::vector<std::string> arguments{test::source("inputs/synthetic.toml")};
  for (const std::string& set :
       {"run.dir=\"" + dir + "\"", std::string("train.epochs=3"),
        std::string("train.batch_size=24"), std::string("data.synthetic_samples=190"),
        std::string("data.synthetic_test_samples=40"), std::string("data.synthetic_image_size=8"),
        std::string("data.synthetic_classes=4"), std::string("model.kind=\"mlp\""),
        std::string("model.hidden=[16]"), std::string("log.every_steps=1"),
        std::string("checkpoint.every_steps=1")})
    arguments.insert(arguments.end(), {"--set", set});
  return arguments;
}

std::string first_other_tensor(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return "the number of tensors";
  for (const auto& [name, tensor, placement] : a) {
    const Tensor* other = nullptr;
    for (const auto& entry : b) {
      if (entry.name == name) other = &entry.tensor;
    }
    if (!other || other->bytes() != tensor.bytes() ||
        std::memcmp(tensor.data(), other->data(), tensor.bytes()) != 0)
      return name;
  }
  return "";
}

}  // namespace

std::vector<std::string> command(const Job& job) {
  std::vector<std::string> arguments = tiny_run(job.dir);
  arguments.insert(arguments.end(), job.more.begin(), job.more.end());
  std::vector<std::string> line = test::app(job.ranks, job.program, arguments);
  const auto program = std::ranges::find(line, test::built(job.program));
  if (job.ranks == 0) line.erase(line.begin(), program);
  if (job.luck.empty()) return line;
  const std::vector<std::string> unlucky{
      "env", "LD_PRELOAD=" + test::built("tests/reliability/libbad_luck.so"),
      "BAD_LUCK=" + job.luck, "BAD_LUCK_IN=" + job.dir, "BAD_LUCK_MARK=" + job.mark};
  line.insert(std::ranges::find(line, test::built(job.program)), unlucky.begin(), unlucky.end());
  return line;
}

Finished start(const Job& job) {
  return test::run(command(job), {{"RECORD", job.record}}, job.hung_after_s);
}

std::string in_shell(const std::vector<std::string>& command) {
  std::string line;
  for (const auto& word : command) line += "'" + word + "' ";
  return line;
}

std::vector<std::string> invariant() {
  return {"--set", "train.reduction=\"invariant\"", "--set", "train.shards=6"};
}

const Reference& undisturbed(const std::vector<std::string>& more) {
  static const test::ScratchFolder scratch;
  static std::map<std::vector<std::string>, Reference> known;
  if (const auto there = known.find(more); there != known.end()) return there->second;
  const std::string dir = scratch.file(std::to_string(known.size()));
  const Finished finished = start({.dir = dir, .more = more});
  if (finished.exit_code != 0) throw Error("the undisturbed run: " + told(finished));
  return known.emplace(more, Reference{dir, finished.seconds}).first->second;
}

std::string difference(const std::string& dir, const Reference& reference) {
  try {
    const auto summary = nlohmann::json::parse(test::read_file(dir + "/summary.json"));
    if (!summary.at("completed").get<bool>()) return "it is not completed";
    if (test::results(dir) != test::results(reference.dir)) return "metrics.jsonl is another";
    const auto a = load_checkpoint(dir + last_checkpoint),
               b = load_checkpoint(reference.dir + last_checkpoint);
    for (const auto& [x, y] : {std::pair(&a.model, &b.model), {&a.optimizer, &b.optimizer}}) {
      const std::string name = first_other_tensor(*x, *y);
      if (!name.empty()) return "other bits: " + name;
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string resumed_to(const Reference& reference, Job job) {
  job.luck.clear();
  job.more.emplace_back("--resume");
  const Finished finished = start(job);
  if (finished.exit_code != 0) return "--resume: " + told(finished);
  const std::string other = difference(job.dir, reference);
  return other.empty() ? "" : "after --resume: " + other + "\n" + told(finished);
}

std::int64_t resumed_at(const Finished& finished) {
  const auto said = finished.output.find("resumed from ");
  if (said == std::string::npos) return 0;
  const std::string before_step = " at step ";
  return std::stoll(
      finished.output.substr(finished.output.find(before_step, said) + before_step.size()));
}

bool has_said_why(const Job& job, const Finished& finished) {
  const std::string program = fs::path(job.program).filename().string() + ": ";
  std::istringstream lines(finished.output);
  for (std::string line; std::getline(lines, line);) {
    const bool announces = line.find("; run folder ") != std::string::npos;
    if (line.starts_with("warning: ") || line.starts_with("error: ") ||
        (line.starts_with(program) && !announces))
      return true;
  }
  return false;
}

bool has_come(const std::string& mark, int rank) {
  if (rank >= 0) return fs::exists(mark + "." + std::to_string(rank));
  return has_come(mark, 0) || has_come(mark, 1) || has_come(mark, 2);
}

std::string damaged_checkpoint(const std::string& dir) {
  for (const auto& file : list_checkpoints(dir + "/checkpoints")) {
    try {
      verify_checkpoint(file);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

std::string told(const Finished& finished) {
  std::ostringstream text;
  text << "exit code " << finished.exit_code << " after " << finished.seconds << " s";
  constexpr std::size_t enough = 1500;
  const auto from = finished.output.size() - std::min(enough, finished.output.size());
  text << "\n" << finished.output.substr(from);
  return text.str();
}

}  // namespace lockstep::reliability
