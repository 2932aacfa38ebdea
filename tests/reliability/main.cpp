// reliability [--short] [--seed N] [--try N] [--list] [FAULT...]
//
// Injects each fault as often as the page says, in full or (--short) in about a minute, and prints
// the page's table. Unexpected outcomes are printed on stderr, with the arguments that repeat them;
// exit code 1.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include "fault.hpp"

namespace lockstep::reliability {
namespace {

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto& some : {faults_of_processes(), faults_of_disks(), faults_of_folders(),
                           faults_of_outputs(), faults_of_files()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

struct Order {
  bool in_short = false, only_list = false;
  std::uint32_t seed = std::random_device()();
  int only_try = -1;
  std::set<std::string> names;
};

Order read_order(int argc, char** argv) {
  Order order;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_number = i + 1 < argc;
    if (word == "--short") {
      order.in_short = true;
    } else if (word == "--list") {
      order.only_list = true;
    } else if (word == "--seed" && has_number) {
      order.seed = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else if (word == "--try" && has_number) {
      order.only_try = std::atoi(argv[++i]);
    } else {
      order.names.insert(word);
    }
  }
  return order;
}

/// True if all tries ended as they should. Prints the fault's row.
bool try_out(const Fault& fault, std::uint64_t stream, const Order& order) {
  std::map<std::string, int> counts;
  int bad = 0;
  const int tries = order.in_short ? fault.few : fault.tries;
  for (int i = 0; i < tries; ++i) {
    if (order.only_try >= 0 && i != order.only_try) continue;
    PhiloxSequence random(order.seed, stream << 32U | static_cast<std::uint64_t>(i));
    const Outcome outcome = fault.attempt(random);
    if (outcome.right) {
      ++counts[outcome.words];
      continue;
    }
    ++bad;
    std::fprintf(stderr, "WRONG: %s --seed %u --try %d: %s\n", fault.name.c_str(), order.seed, i,
                 outcome.words.c_str());
  }
  std::string cell = bad == 0 ? "" : "**" + std::to_string(bad) + " wrong**";
  for (const auto& [words, count] : counts)
    cell += (cell.empty() ? "" : "; ") + std::to_string(count) + " " + words;
  std::printf("| `%s` | %s | %d | %s |\n", fault.name.c_str(), fault.what.c_str(), tries,
              cell.c_str());
  std::fflush(stdout);
  return bad == 0;
}

int run(const Order& order) {
  const auto all = all_faults();
  if (order.only_list) {
    for (const Fault& fault : all)
      std::printf("| `%s` | %s | %d |\n", fault.name.c_str(), fault.what.c_str(), fault.tries);
    return 0;
  }
  std::fprintf(stderr, "seed %u\n", order.seed);
  std::printf("| fault | what is tried | times | what happened |\n|---|---|---|---|\n");
  bool good = true;
  std::size_t found = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!order.names.empty() && !order.names.contains(all[i].name)) continue;
    ++found;
    good = try_out(all[i], i, order) && good;
  }
  if (found == 0 || found < order.names.size()) {
    std::fprintf(stderr, "no such fault; --list names them\n");
    return 2;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::reliability

int main(int argc, char** argv) {
  try {
    return lockstep::reliability::run(lockstep::reliability::read_order(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reliability: %s\n", error.what());
    return 2;
  }
}
