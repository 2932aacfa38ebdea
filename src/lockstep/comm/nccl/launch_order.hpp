#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// In which order the collectives of all groups of a device run there: on all ranks the same, on
/// one stream. NCCL demands it, because a kernel holds the device until its peers have come. The
/// time of a collective is the largest of the ranks' logical clocks when they entered it, which
/// they tell each other when they compare their calls; a clock is behind all times that it has
/// heard of. So a collective may go when its ranks agree on it, and none that was entered here may
/// get an earlier time (Skeen's algorithm; Birman and Joseph 1987). Waits for nothing. Thread-safe.
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

  LaunchOrder(std::shared_ptr<NcclApi> api, Device device)
      : api_(std::move(api)), device_(device) {}
  ~LaunchOrder();
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  /// That of the device's groups that `api` serves.
  [[nodiscard]] static std::shared_ptr<LaunchOrder> of(const std::shared_ptr<NcclApi>& api,
                                                       Device device);

  /// On which all groups launch. Made at the first call. Throws GpuError.
  [[nodiscard]] NcclApi::Stream stream();
  /// Something on it may never end.
  void keep_stream() noexcept;

  /// What a new group may be called at least. Groups of one rank have different numbers, the same
  /// on all of their ranks: the largest of those that these propose.
  [[nodiscard]] std::uint64_t next_group();
  void add_group(std::uint64_t number);

 private:
  std::shared_ptr<NcclApi> api_;
  Device device_;
  std::mutex mutex_;
  NcclApi::Stream stream_ = nullptr;
  bool keeps_stream_ = false;
  std::int64_t clock_ = 0;
  std::uint64_t next_group_ = 1;
  Place* first_ = nullptr;  // in no order
};

}  // namespace lockstep
