#include <lockstep/comm/agreed_error.hpp>

namespace lockstep {

std::string rank_prefix(int rank, int size, const std::string& host) {
  if (size == 1) return "";
  return "rank " + std::to_string(rank) + " of " + std::to_string(size) + " (" + host + "): ";
}

std::string AgreedFailure::prefix() const {
  return everywhere ? "" : rank_prefix(rank, ranks, host);
}

bool is_agreed_by_all(int ranks) {
  try {
    throw;
  } catch (const AgreedFailure& failure) {
    return failure.ranks == 0 || failure.ranks == ranks;
  } catch (...) {
    return false;
  }
}

}  // namespace lockstep
