#include "members.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/train/run/slurm_time.hpp>

#include "child.hpp"

namespace lockstep::elastic {
namespace {

constexpr int most_slots = 1 << 20;
constexpr std::int64_t most_bytes = std::int64_t{16} << 20U;  // in a file of members
constexpr double slurm_answers_s = 10;

/// A name or an IPv4 address that neither a launcher nor its ssh can take for an option, a list or
/// a user. The domain name system's limit on the length holds too.
bool is_host_name(std::string_view text) {
  constexpr std::size_t longest = 253;
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= longest && text.front() != '-' && text.front() != '.' &&
         text.find_first_not_of(letters) == std::string_view::npos;
}

/// Digits alone, up to most_slots.
std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < 0 || number > most_slots) return std::nullopt;
  return number;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<std::string> names_in(const std::string& nodes) {
  return words_of(run_helper({"scontrol", "show", "hostnames", nodes}, slurm_answers_s).output);
}

/// Parses sinfo's lines NODE STATE: names of nodes that Slurm counts as usable.
std::vector<std::string> living(const std::string& sinfo) {
  std::vector<std::string> names;
  std::istringstream lines(sinfo);
  for (std::string name, state; lines >> name >> state;) {
    const bool lost = state.starts_with("down") || state.starts_with("fail") ||
                      state.starts_with("unknown") || state.ends_with("*");
    if (!lost) names.push_back(name);
  }
  return names;
}

/// One answer of Slurm; asked again when it is too old.
struct SlurmMembers {
  std::string nodes = environment("SLURM_JOB_NODELIST");
  Hosts all, now;
  Clock::time_point asked, answered;
  /// The newest answers, empty before the first: the nodes of the job, and those that are up. Of
  /// look() alone.
  std::vector<std::string> of_job, up;

  SlurmMembers() {
    const auto listed = names_in(nodes);
    std::string tasks = environment("SLURM_TASKS_PER_NODE");
    if (tasks.empty()) tasks = "1(x" + environment("SLURM_JOB_NUM_NODES") + ")";
    const auto slots = parse_tasks_per_node(tasks);
    if (listed.empty() || listed.size() != slots.size() ||
        !std::ranges::all_of(listed, is_host_name)) {
      throw InputError(
          fmt::format("cannot read this Slurm allocation (nodes \"{}\", tasks per node \"{}\"). "
                      "Name hosts and slots with --members FILE.",
                      nodes, tasks));
    }
    for (std::size_t i = 0; i < listed.size(); ++i) all.push_back({listed[i], slots[i]});
    now = look();
    asked = answered = Clock::now();
  }

  /// The members of `all` that are still usable, by the newest answers: one that does not come
  /// changes nothing. Both commands run at the same time: either may hang.
  [[nodiscard]] Hosts look() {
    const auto begun = Clock::now();
    // A node that failed is no longer part of the job, even if it is up again.
    HelperProgram squeue({"squeue", "--noheader", "--jobs", train::slurm_job(), "--format", "%N"});
    HelperProgram sinfo({"sinfo", "--noheader", "--Node", "--nodes", nodes, "--format", "%N %T"});
    const auto says = [&](HelperProgram& question) {
      const Seconds left(std::max(0.0, slurm_answers_s - seconds_since(begun)));
      return question.wait(left) && question.code() == 0 ? question.output() : std::string();
    };
    const auto still = words_of(says(squeue));
    if (!still.empty()) renew(of_job, names_in(still.front()));
    renew(up, living(says(sinfo)));
    Hosts left = all;
    keep(left, of_job);
    keep(left, up);
    return left;
  }

  /// No names mean a busy or absent controller, not an allocation without nodes.
  static void renew(std::vector<std::string>& names, std::vector<std::string> news) {
    if (!news.empty()) names = std::move(news);
  }

  static void keep(Hosts& hosts, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::erase_if(hosts, [&](const Host& host) {
      return std::ranges::find(names, host.name) == names.end();
    });
  }
};

}  // namespace

Hosts parse_members(const std::string& text, const std::string& name) {
  Hosts hosts;
  std::set<std::string> known;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const auto bad = [&](const std::string& what) {
      return InputError(fmt::format("{}:{}: {}; a line is HOST [SLOTS]", name, number, what));
    };
    Host host{.name = words[0], .slots = 1};
    if (words.size() > 2) throw bad(fmt::format("\"{}\" is too many", words[2]));
    if (words.size() == 2) {
      const auto slots = number_of(words[1]);
      if (!slots) throw bad(fmt::format("\"{}\" is not a number of slots", words[1]));
      host.slots = *slots;
    }
    if (!is_host_name(host.name))
      throw bad(fmt::format("\"{}\" is not a host name or IPv4 address", host.name));
    if (!known.insert(host.name).second) throw bad(host.name + " is listed twice");
    hosts.push_back(host);
  }
  return hosts;
}

std::vector<int> parse_tasks_per_node(const std::string& text) {
  std::vector<int> tasks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    // COUNT or COUNT(xTIMES)
    const auto bracket = std::min(part.find('('), part.size());
    std::string_view behind = std::string_view(part).substr(bracket);
    const int count = number_of(std::string_view(part).substr(0, bracket)).value_or(0);
    int times = 1;
    if (behind.starts_with("(x") && behind.ends_with(")"))
      times = number_of(behind.substr(2, behind.size() - 3)).value_or(0);
    else if (!behind.empty())
      times = 0;
    if (count == 0 || times == 0)
      throw InputError(fmt::format("\"{}\" is not a Slurm list of tasks per node", text));
    tasks.insert(tasks.end(), static_cast<std::size_t>(times), count);
  }
  return tasks;
}

Members members_of_file(const std::string& path) {
  struct State {
    Hosts hosts;
    std::string complaint;
  };
  auto state = std::make_shared<State>();
  state->hosts = parse_members(read_small_file(path, most_bytes), path);
  return [path, state](bool) {
    try {
      state->hosts = parse_members(read_small_file(path, most_bytes), path);
      state->complaint.clear();
    } catch (const InputError& error) {
      if (state->complaint != error.what()) log(LogLevel::warning, error.what());
      state->complaint = error.what();
    }
    return state->hosts;
  };
}

Members members_of_slurm() {
  struct State {
    SlurmMembers slurm;
    std::future<Hosts> answer;  // while a query is running
  };
  auto state = std::make_shared<State>();
  return [state](bool now) {
    auto& [slurm, answer] = *state;
    // The first call needs one query only.
    constexpr double new_enough_s = 1;
    now = now && seconds_since(slurm.answered) > new_enough_s;
    // A thread of its own, since a busy Slurm takes its time and the caller passes on the ranks'
    // output.
    if (now && answer.valid()) slurm.now = answer.get();  // of an earlier query
    if (!answer.valid() && (now || seconds_since(slurm.asked) > slurm_asked_s)) {
      slurm.asked = Clock::now();
      answer = std::async(std::launch::async, [&slurm] { return slurm.look(); });
    }
    if (answer.valid() && (now || answer.wait_for(Seconds(0)) == std::future_status::ready)) {
      slurm.now = answer.get();
      slurm.answered = Clock::now();
    }
    return slurm.now;
  };
}

Members members_of_this_machine(int slots) {
  // Even an idle rank takes several times as much.
  constexpr double least_memory_of_a_rank = 8 << 20U;
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (slots * least_memory_of_a_rank > memory) {
    throw InputError(
        fmt::format("{} ranks do not fit on this machine: it has {:.1f} GiB of memory, and an idle "
                    "rank takes 8 MiB. Use a smaller --max, or name hosts with --members FILE.",
                    slots, memory / (1 << 30U)));
  }
  return [here = Hosts{{host_name(), slots}}](bool) { return here; };
}

}  // namespace lockstep::elastic
