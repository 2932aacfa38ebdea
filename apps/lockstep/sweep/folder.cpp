#include "folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/io/atomic_file.hpp>

#include "elastic/leftovers.hpp"
#include "output_folder.hpp"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t most_bytes = std::int64_t{256} << 20U;

}  // namespace

std::string difference(const Json& before, const Json& now) {
  constexpr std::array<std::pair<const char*, const char*>, 6> questions{{
      {"deck_hash", "another deck or --set"},
      {"program", "another program"},
      {"settings", "another grid or other draws"},
      {"metric", "another metric"},
      {"mode", "another mode"},
      {"halving", "another halving"},
  }};
  for (const auto& [key, words] : questions) {
    if (before.at(key) != now.at(key)) return words;
  }
  return {};
}

Folder::Folder(const fs::path& path, const Json& identity, bool of_one_trial)
    : path_(utility::checked_output(path, "sweep.json", "a sweep's")), identity_(identity) {
  if (!of_one_trial) lock_.emplace(path_, folder_kind);
  const fs::path file = path_ / "sweep.json";
  std::error_code error;
  if (!fs::exists(file, error)) {
    write_sweep(Json::object());
    return;
  }
  const Json json = Json::parse(read_small_file(file, most_bytes), nullptr, false);
  std::string differs;
  try {
    differs = difference(json.at("sweep"), identity);
  } catch (const Json::exception&) {
    throw InputError(file.string() + " is not a file of a sweep");
  }
  if (differs.empty()) return;
  throw InputError(
      fmt::format("{} holds a sweep of {}: name another --output", path_.string(), differs));
}

void Folder::read(Trial& trial) const {
  const fs::path file = records(trial) / "record.json";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  try {
    trial.take(Json::parse(read_small_file(file, most_bytes)));
  } catch (const Json::exception&) {
    throw InputError(file.string() + " is not a record of a trial");
  }
}

void Folder::write(const Trial& trial) const {
  write_atomically(records(trial) / "record.json", scaling::text_of(trial.json()));
}

void Folder::write_sweep(const Json& results) const {
  Json json{{"kind", "lockstep sweep"}, {"format", 1}, {"sweep", identity_}};
  json.update(results);
  write_atomically(path_ / "sweep.json", scaling::text_of(json));
}

void end_leftovers(const std::vector<fs::path>& records) {
  constexpr double for_the_save_s = 20, longest_death_s = 10;
  constexpr std::chrono::milliseconds between_looks{50};
  for (const fs::path& folder : records) {
    const auto begun = Clock::now();
    for (std::vector<int> left; !(left = elastic::leftovers(folder)).empty();) {
      const double waited = seconds_since(begun);
      if (waited > for_the_save_s + longest_death_s) {
        throw InputError(fmt::format(
            "processes of a killed sweep are still running: {}; start again when they have ended",
            fmt::join(left, ", ")));
      }
      // Their launcher had SIGTERM when the sweep died; they may still be saving.
      if (waited > for_the_save_s) {
        for (const int process : left) kill(process, SIGKILL);
      }
      std::this_thread::sleep_for(between_looks);
    }
  }
}

}  // namespace lockstep::sweep
