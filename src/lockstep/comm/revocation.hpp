#pragma once
#include <string>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Lets a rank end a group on all its ranks at once, with the reason: for a rank that leaves a
/// protocol by an exception, so that the others do not wait for it until their deadline. The word
/// is MPI's (ULFM's MPI_Comm_revoke). While it lives, any wait on the group also looks for word of
/// a revocation. It works among ranks that have one, on an mpi or a threads group; elsewhere it
/// does nothing. It uses the group's last tag, from any rank: one at a time for each group.
class Revocation {
 public:
  /// The group must outlive it. Local. Throws CommError if the group has ended, as any call does.
  explicit Revocation(ProcessGroup& group);
  ~Revocation();
  Revocation(Revocation&&) = delete;

  /// Tells the other ranks: within milliseconds their waits, and later calls, throw CommError with
  /// the reason. Here the group ends, too. Nothing, if it has ended before. Local; takes at most
  /// 0.2 s.
  void revoke(const std::string& reason) noexcept;

  static constexpr int tag = message_tags - 1;

 private:
  ProcessGroup* group_;  ///< null where it does nothing
  Work word_;            ///< receives the reason
};

}  // namespace lockstep
