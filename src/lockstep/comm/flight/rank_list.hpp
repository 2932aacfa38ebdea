#pragma once
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Ranks in their order, runs shortened: "0-3,8"; "0-6/2" goes in steps of 2, "3-0/-1" down.
[[nodiscard]] std::string format_rank_list(std::span<const int> ranks);
/// The inverse. Throws InputError for any other text.
[[nodiscard]] std::vector<int> parse_rank_list(const std::string& text);

/// For sentences: "rank 3", "ranks 0-2, 4-7".
[[nodiscard]] std::string ranks_in_words(std::span<const int> ranks);

}  // namespace lockstep
