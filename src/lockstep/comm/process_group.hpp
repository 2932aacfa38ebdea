#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/comm/reduce_op.hpp>
#include <lockstep/comm/wait_times.hpp>
#include <lockstep/comm/work.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

struct Operation;
struct P2POp;

/// As a peer: whichever rank's message comes first (irecv, recv).
inline constexpr int any_source = -1;
/// Tags of messages are 0 to message_tags - 1.
inline constexpr int message_tags = 1 << 17;

/// An ordered set of ranks that communicate with each other. Beside it stand batches
/// (coalescing.hpp), messages for servers (message_port.hpp) and a group's duplicate
/// (duplicate_group.hpp).
///
/// Contract: all ranks make the same collective calls in the same order with equal shapes, dtypes,
/// roots and reductions; several operations may be in flight. A group of one needs no launcher, so
/// callers never ask "am I distributed?". One thread per group at a time. Several threads may send,
/// receive and await messages (of an nccl group: host messages), alone and in batches, where
/// threads may communicate at all (rpc does).
///
/// Every collective returns at once, with a Work; its tensors are off limits until wait().
/// Arguments are checked before anything is sent: ShapeError names the argument at fault. Tensors
/// may be empty, and of any dtype if there is no reduction. "Rows" are slices of the leading
/// dimension. `counts`, one number of rows per rank, are the same on every rank.
///
/// Devices: the tensors of a call are on one device, and those of a collective on the same kind of
/// device on every rank. The mpi and the threads backend move device data through pinned host
/// memory, with the host's bits. The call starts once the current stream has reached it; wait()
/// returns when the host has finished and makes the current stream wait for the copy back.
///
/// Failure: a time-out or a failed peer poisons the group. Later calls throw CommError at once, and
/// the buffers of unfinished operations stay alive for the life of the process, because MPI may
/// still write to them. The library only throws; main() decides what happens next.
///
/// Lifetime: close() is collective; the destructor is local and never communicates.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  /// In [0, size()); -1 on a rank that is not a member (new_group).
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;  ///< at least 1
  [[nodiscard]] virtual const char* backend()
      const noexcept = 0;  ///< "mpi", "threads", "nccl", "fake"; "none" for who is not in it

  /// Replaces `t` by its reduction over all ranks. Every rank gets the same bits; another group
  /// size may round differently. Collective.
  [[nodiscard]] Work all_reduce(const Tensor& t, ReduceOp op) { return all_reduce(t, t, op); }
  /// The same out of place: `input` stays as it is.
  [[nodiscard]] Work all_reduce(const Tensor& input, const Tensor& output, ReduceOp op);

  /// Replaces rank `root`'s `t` by the reduction over all ranks; the others' stay. Collective.
  [[nodiscard]] Work reduce(const Tensor& t, int root, ReduceOp op) {
    return reduce(t, rank() == root ? t : Tensor(), root, op);
  }
  /// The same out of place; `output` is looked at on rank `root` only.
  [[nodiscard]] Work reduce(const Tensor& input, const Tensor& output, int root, ReduceOp op);

  /// Replaces every rank's `t` by rank `root`'s. Collective.
  [[nodiscard]] Work broadcast(const Tensor& t, int root);

  /// Fills `output`, of shape [size(), ...input.shape()], with every rank's `input` in rank order.
  /// Collective.
  [[nodiscard]] Work all_gather(const Tensor& input, const Tensor& output);
  /// Rank r brings counts[r] rows; `output` holds all of them in rank order. Collective.
  [[nodiscard]] Work all_gather_v(const Tensor& input, const Tensor& output,
                                  ListView<std::int64_t> counts);

  /// As all_gather, but only rank `root` gets, and only its `output` is looked at. Collective.
  [[nodiscard]] Work gather(const Tensor& input, const Tensor& output, int root);
  [[nodiscard]] Work gather_v(const Tensor& input, const Tensor& output,
                              ListView<std::int64_t> counts, int root);

  /// Rank r gets row r of rank `root`'s `input`, of shape [size(), ...output.shape()]; the others'
  /// `input` is not looked at. Collective.
  [[nodiscard]] Work scatter(const Tensor& input, const Tensor& output, int root);
  /// Rank r gets the counts[r] rows that follow those of the ranks before it. Collective.
  [[nodiscard]] Work scatter_v(const Tensor& input, const Tensor& output,
                               ListView<std::int64_t> counts, int root);

  /// Rank r gets row r of the reduction of all inputs, of shape [size(), ...output.shape()].
  /// Collective.
  [[nodiscard]] Work reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op);
  [[nodiscard]] Work reduce_scatter_v(const Tensor& input, const Tensor& output,
                                      ListView<std::int64_t> counts, ReduceOp op);

  /// Row r of `input` goes to rank r, which finds it in row rank() of its `output`; both of shape
  /// [size(), ...], not the same memory. Collective.
  [[nodiscard]] Work all_to_all(const Tensor& input, const Tensor& output);
  /// The first send_counts[0] rows go to rank 0, the next to rank 1 ...; `output` gets
  /// receive_counts[r] rows from rank r, which must have sent as many. Collective.
  [[nodiscard]] Work all_to_all_v(const Tensor& input, const Tensor& output,
                                  ListView<std::int64_t> send_counts,
                                  ListView<std::int64_t> receive_counts);

  /// Returns when every rank has entered, or throws TimeoutError. Collective.
  void barrier();

  /// One message from this rank to rank `peer`, which receives it into a tensor of the same dtype
  /// and number of elements. Messages of one sender and tag are received in the order in which they
  /// were sent, whatever their dtypes. 0 <= tag < message_tags.
  [[nodiscard]] Work isend(const Tensor& t, int peer, int tag = 0);
  /// `peer` may be any_source; Work::source() returns the sender. Throws CommError, from wait(), if
  /// the message that came has another length or dtype; it is not written to `t` then. Receives of
  /// several dtypes may be pending under one tag, if they are started in the order of the sends.
  /// Receives started in another order fail, except that an mpi group may find a later message of
  /// the right dtype for each of them: which of the two happens depends on timing.
  [[nodiscard]] Work irecv(const Tensor& t, int peer, int tag = 0);
  void send(const Tensor& t, int peer, int tag = 0) { isend(t, peer, tag).wait(); }
  /// Returns the sender's rank.
  int recv(const Tensor& t, int peer, int tag = 0);

  /// The group of the given ranks of this one, in that order. Other ranks get a group of which they
  /// are not members: its rank() is -1, size() and ranks() describe the members, close() is
  /// allowed, and every other call throws Error. Collective over this group. `ranks` must be the
  /// same everywhere: else InputError on every rank.
  [[nodiscard]] std::shared_ptr<ProcessGroup> new_group(ListView<int> ranks);
  /// Ranks that pass the same colour become a group, ordered by key, then by rank here; a rank with
  /// a negative colour gets a group without members. Collective.
  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int colour, int key);
  /// This rank's of the groups of `group_size` neighbours: ranks 0 to group_size - 1, the next as
  /// many, and so on. Throws InputError unless size() is a multiple of it. Collective.
  [[nodiscard]] std::shared_ptr<ProcessGroup> new_subgroups(int group_size);
  /// This rank's of several groups made by one call, each of the given ranks of this one, in that
  /// order; a rank in none of them gets a group without members, as from split(). Throws InputError
  /// on every rank unless `ranks_per_subgroup` is the same everywhere and no rank is in two lists.
  /// Collective.
  [[nodiscard]] std::shared_ptr<ProcessGroup> new_subgroups_by_enumeration(
      ListView<std::vector<int>> ranks_per_subgroup);

  /// A short word for this group in traces, the flight recorder and error messages, such as the
  /// dimension of a DeviceMesh; "" at first. Local.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void set_name(std::string name);

  /// The members' global ranks (their ranks in the outermost parent group), in this group's order.
  /// 0 to size() - 1 in that group itself.
  [[nodiscard]] std::vector<int> ranks() const;
  /// The global rank of rank `rank` of this group; throws InputError if there is none.
  [[nodiscard]] int global_rank(int rank) const;
  /// The rank in this group of a global rank; throws InputError if it is not a member.
  [[nodiscard]] int group_rank(int global_rank) const;

  /// A tensor whose collectives work in place within a node, several times faster than through MPI:
  /// the other ranks of this machine can read its memory. Elements are zero. Returns an ordinary
  /// tensor on every rank, with one warning, if shared memory is short. Collective, with equal
  /// arguments; the memory goes with the group and the last tensor.
  [[nodiscard]] virtual Tensor shared_buffer(const Shape& shape, DType dtype);

  [[nodiscard]] virtual WaitTimes wait_times() const noexcept { return {}; }

  /// Releases the communicators of the group and its duplicate (duplicate_of). Collective; they are
  /// unusable afterwards. Close groups made from it first: some MPIs' MPI_Comm_free waits for other
  /// ranks.
  void close();

 protected:
  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// A backend implements this: it starts one operation whose arguments have been checked.
  [[nodiscard]] virtual Work start(Operation&& operation) = 0;
  /// Called on all ranks with the same list: makes a group of `members` (ranks of this group), in
  /// this order. Empty on a rank that is in no new group: the result is not looked at.
  [[nodiscard]] virtual std::shared_ptr<ProcessGroup> make_subgroup(
      std::span<const int> members) = 0;
  /// Operations started between these belong to one Coalescing.
  virtual void begin_batch() {}
  virtual void end_batch() {}
  /// See MessagePort. Collective.
  virtual void enable_wakeup(std::chrono::microseconds /*awake*/, bool /*by_datagrams*/) {}
  /// The backend's part of close().
  virtual void release() = 0;
  /// The backend's part of set_name().
  virtual void take_name(const std::string& /*name*/) {}
  /// For backends that delegate some operations to another group of the same ranks: takes
  /// that group's global ranks.
  void take_global_ranks_of(const ProcessGroup& other) { global_ranks_ = other.global_ranks_; }
  [[nodiscard]] static Work start_on(ProcessGroup& group, Operation&& operation);
  [[nodiscard]] static std::shared_ptr<ProcessGroup> make_subgroup_of(ProcessGroup& group,
                                                                      std::span<const int> members);

 private:
  friend class Coalescing;
  friend class MessagePort;
  friend std::shared_ptr<ProcessGroup> duplicate_of(ProcessGroup& group);
  friend Work batch_isend_irecv(ProcessGroup& group, ListView<P2POp> messages);
  Work launch(Operation&& operation);
  [[nodiscard]] std::shared_ptr<ProcessGroup> subgroup(std::span<const int> members,
                                                       std::span<const int> of_the_others);

  class Coalescing* coalescing_ = nullptr;          // the batch that is being collected, if any
  std::atomic<std::thread::id> coalescing_thread_;  // thread whose calls it collects; id(): none
  std::shared_ptr<ProcessGroup> duplicate_;         // which does not hold this one
  std::vector<int> global_ranks_;                   // empty: the same as in this group
  std::string name_;
};

}  // namespace lockstep
