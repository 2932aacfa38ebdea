#pragma once
#include <netinet/in.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/descriptor.hpp>
#include <lockstep/comm/engine/doorbell.hpp>

namespace lockstep {

/// Where a rank can be rung. The ranks of a group show each other theirs once.
struct BellCard {
  static constexpr std::size_t most_addresses = 4;

  std::uint64_t token = 0;    ///< a secret of the group's; 0: the rank cannot be rung
  std::uint64_t network = 0;  ///< equal where loopbacks are the same; 0: not known
  std::int32_t awake_us = 0;  ///< how long the rank stays awake after a message
  std::uint16_t port = 0;
  std::uint16_t count = 0;                           ///< of addresses
  std::array<in6_addr, most_addresses> addresses{};  ///< IPv4 ones mapped into IPv6 (RFC 4291)
};

/// Rings a Doorbell of this process when a rank on another machine asks for it, by a datagram (UDP)
/// to a port of its own, where a thread waits. A datagram carries its receiver's token, so that
/// nobody else rings, and nothing more: it only wakes. It may be lost, or find no way at all, so
/// who sleeps must look by himself now and then.
class RemoteBell {
 public:
  /// Rings `bell`, which outlives this, of a rank that stays awake for so long after a message.
  /// Throws std::exception where there are no sockets, threads or random numbers.
  RemoteBell(Doorbell& bell, std::chrono::microseconds awake);
  ~RemoteBell();
  RemoteBell(const RemoteBell&) = delete;
  RemoteBell& operator=(const RemoteBell&) = delete;

  [[nodiscard]] const BellCard& card() const noexcept { return card_; }
  /// The ranks' cards, in rank order, before the first ring(). Returns how many can be rung.
  int meet(std::span<const BellCard> cards);
  /// A message for the rank is on its way: wakes it, unless it is awake from the one before, or
  /// cannot be rung. Thread-safe.
  void ring(int rank) noexcept;

 private:
  struct Peer {
    std::uint64_t token = 0;
    std::vector<in6_addr> addresses;
    std::uint16_t port = 0;
    Clock::duration awake{};
    std::atomic<Clock::rep> last_message = 0;
  };

  void listen() noexcept;
  void send(std::uint64_t token, const in6_addr& address, std::uint16_t port) const noexcept;

  Doorbell& bell_;
  BellCard card_;
  int family_ = AF_INET6;  // IPv4 too
  Descriptor socket_, stop_;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace lockstep
