#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>

#include <lockstep/tensor/runtime/own_stream.hpp>

namespace lockstep {

/// The order in which the collectives of all groups of a device run there: the same on all ranks,
/// on one stream. NCCL demands it, because a kernel holds the device until its peers have come. The
/// time of a collective is the largest of the ranks' logical clocks at its entry, which they
/// exchange when they compare their calls; a clock is later than all times that it has received. So
/// a collective may start when its ranks agree on its time, and none that was entered here can get
/// an earlier time (Skeen's algorithm; Birman and Joseph 1987). Waits for nothing. Thread-safe.
///
/// With Contract::late nobody waits until ranks agree, so no time can be agreed upon: the order is
/// that of the calls on this rank, whatever their groups. It is never settled, so time() stays the
/// clock at the call. No device waits for ever if the ranks' orders fit into one order of all
/// collectives. Proof: take the first unfinished one in that order. All of its ranks call it, as
/// nothing holds their hosts, and all that is before it on their streams is over, so its kernels
/// meet. The orders match if ranks run one program: DistributedDataParallel reduces buckets in
/// their order, and SyncBatchNorm's sums are in the order in which autograd reaches its layers.
/// They do not match if two ranks call two groups' collectives in opposite order, through different
/// branches or because two threads of one rank make the calls. Then two kernels wait for each other
/// until the deadline, and both groups end in a TimeoutError that names the other's call. Data are
/// never wrong, because a communicator pairs its own collectives in the order of its own calls.
///
/// A device has groups of one of the two kinds only. Late ones run in the order of entry; an agreed
/// one may get a later time than one entered after it. So two agreed collectives can be in an order
/// that has no place for the late one that was called between them.
class LaunchOrder {
 public:
  /// A collective's place, from enter() to leave(). Leaves when it is destroyed.
  class Place {
   public:
    Place() = default;
    ~Place() { leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    [[nodiscard]] bool is_entered() const noexcept { return order_ != nullptr; }
    /// This rank's clock, until settle(): then the collective's time.
    [[nodiscard]] std::int64_t time() const noexcept { return key_.time; }
    void enter(LaunchOrder& order, std::uint64_t group, std::uint64_t sequence);
    /// The ranks agree: `time` is the largest of theirs.
    void settle(std::int64_t time);
    /// Whether it may be launched now, if it is settled.
    [[nodiscard]] bool is_first() const;
    /// It has been launched, or never will be.
    void leave() noexcept;

   private:
    friend class LaunchOrder;
    struct Key {
      std::int64_t time = 0;
      std::uint64_t group = 0, sequence = 0;
      auto operator<=>(const Key&) const = default;
    };
    Key key_;
    LaunchOrder* order_ = nullptr;
    Place* previous_ = nullptr;
    Place* next_ = nullptr;
  };

  explicit LaunchOrder(Device device) : stream_(device) {}
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  /// That of the groups of a device.
  [[nodiscard]] static std::shared_ptr<LaunchOrder> of(Device device);

  /// The stream on which all groups launch their collectives.
  [[nodiscard]] const Stream& stream() const noexcept { return stream_.get(); }

  /// The registration of a group in use: whether its collectives run in the order of the calls.
  /// Null if there are groups of the other kind.
  [[nodiscard]] std::shared_ptr<const bool> kind_of_groups(bool late);

  /// The smallest possible number of a new group. Groups of one rank have different numbers, and a
  /// group has the same number on all of its ranks: the largest of their proposals.
  [[nodiscard]] std::uint64_t next_group();
  void add_group(std::uint64_t number);

 private:
  OwnStream stream_;
  std::mutex mutex_;
  std::weak_ptr<const bool> is_late_;
  std::int64_t clock_ = 0;
  std::uint64_t next_group_ = 1;
  Place* first_ = nullptr;  // in no order
};

}  // namespace lockstep
