#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include <lockstep/base/error.hpp>
#include <lockstep/io/atomic_file.hpp>

#include "run_sections.hpp"
#include "study_sections.hpp"

namespace lockstep::report {
namespace fs = std::filesystem;
namespace {

/// Of equal names each becomes the path that the user gave.
template <class T>
void tell_apart(std::vector<T>& list, const std::vector<fs::path>& paths,
                const std::function<std::string&(T&)>& name) {
  std::map<std::string, int> count;
  for (T& one : list) ++count[name(one)];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (count[name(list[i])] > 1) name(list[i]) = paths[i].string();
  }
}

void expect_no_input(const fs::path& output, const fs::path& folder) {
  std::error_code error;
  for (const char* file : {"metrics.jsonl", "deck.toml", "summary.json", "elastic.jsonl", "log.txt",
                           "program.json", "scaling.json", "study.json"}) {
    if (fs::exists(folder / file, error)) expect_not_replaced(folder / file, output);
  }
}

}  // namespace

std::int64_t write_report(const std::vector<fs::path>& paths, const fs::path& output) {
  std::error_code error;
  if (fs::is_directory(output, error))
    throw InputError(fmt::format("-o {} is a folder; name a file in it", output.string()));
  std::vector<Run> runs;
  std::vector<ScalingStudy> studies;
  std::vector<fs::path> of_runs, of_studies;
  for (const fs::path& path : paths) {
    expect_no_input(output, path);
    if (is_study(path)) {
      studies.push_back(read_scaling_study(path));
      of_studies.push_back(path);
    } else {
      runs.push_back(read_whole_run(path));
      of_runs.push_back(path);
    }
  }
  tell_apart<Run>(runs, of_runs, [](Run& run) -> std::string& { return run.record.name; });
  tell_apart<ScalingStudy>(studies, of_studies,
                           [](ScalingStudy& study) -> std::string& { return study.name; });
  Page page;
  std::vector<std::string> names;
  for (const Run& run : runs) names.push_back(run.record.name);
  for (const ScalingStudy& study : studies) names.push_back(study.name);
  page.title = names.front();
  if (names.size() > 1) page.title = fmt::format("{} and {} more", names.front(), names.size() - 1);
  if (names.size() == 2) page.title = names[0] + " and " + names[1];
  if (!runs.empty()) add_runs(page, runs);
  if (!studies.empty()) add_studies(page, studies);
  const std::string text = html(page);
  write_atomically(output, text);
  return std::ssize(text);
}

}  // namespace lockstep::report
