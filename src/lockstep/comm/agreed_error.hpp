#pragma once
#include <string>
#include <type_traits>

#include <lockstep/base/failure.hpp>

namespace lockstep {

/// A failure as all ranks know it. `rank` is the lowest that failed, `host` is that rank's, and
/// `message` is its own sentence.
struct AgreedFailure : Failure {
  int ranks = 0;            ///< size of the group that knows it; 0: all ranks of the job
  bool everywhere = false;  ///< every rank failed with this message

  /// "rank 3 of 8 (node12): "; empty if every rank failed with the same error.
  [[nodiscard]] std::string prefix() const;
};

/// An E that all ranks throw at the same place: nobody has to be told, so the job can end without
/// MPI_Abort.
template <class E>
class Agreed : public E, public AgreedFailure {
 public:
  /// For errors that all ranks detect without communication. The rest goes to E.
  template <class... Rest>
  explicit Agreed(const std::string& sentence, const Rest&... rest) : E(sentence, rest...) {
    message = sentence;
    code = E::exit_code();
    everywhere = true;
  }
  /// Of a rank's failure.
  Agreed(const AgreedFailure& failure, const std::string& sentence)
      : E(error_of(failure, sentence)), AgreedFailure(failure) {}

 private:
  static E error_of(const AgreedFailure& failure, const std::string& sentence) {
    if constexpr (std::is_constructible_v<E, const std::string&, ExitCode>)
      return E(sentence, failure.code);
    else
      return E(sentence);
  }
};
using AgreedError = Agreed<Error>;

/// True if all ranks of a job of this size throw the exception that a catch block is handling.
[[nodiscard]] bool is_agreed_by_all(int ranks);

/// "rank 3 of 8 (node12): ", or nothing in a group of one.
[[nodiscard]] std::string rank_prefix(int rank, int size, const std::string& host);

}  // namespace lockstep
