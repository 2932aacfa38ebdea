#pragma once
// A step of one rank beside its link.
#include <cstddef>
#include <vector>

namespace lockstep::scaling {

/// One all-reduce of a bucket. Seconds.
struct Transfer {
  double ready_s = 0;  ///< the bucket's last gradient, from the beginning of backward
  double own_s = 0;    ///< of the rank itself (sums in shared memory): backward waits for it
  double link_s = 0;   ///< on the link, beside backward
};

/// Times of a step's backward and its all-reduces, in seconds.
struct Overlap {
  double end_s = 0;      ///< when all is done, from the beginning of backward
  double exposed_s = 0;  ///< of it: communication that backward did not cover
};

/// A backward of `backward_s` seconds. The transfers of the first round are launched in their
/// order, each when it is ready; each has the link for itself, one after the other. Own work is
/// done at the launch, and all that follows in backward is so much later. Further rounds begin when
/// backward and the round before are over; their ready_s is not looked at.
[[nodiscard]] Overlap overlap(double backward_s, const std::vector<std::vector<Transfer>>& rounds);

}  // namespace lockstep::scaling
