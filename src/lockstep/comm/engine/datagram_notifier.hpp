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
#include <lockstep/comm/engine/event_count.hpp>

namespace lockstep {

/// Where a rank takes wake-up datagrams. The ranks of a group exchange theirs once.
struct NotifierAddress {
  static constexpr std::size_t most_addresses = 4;

  std::uint64_t token = 0;    ///< a secret of the group's; 0: the rank takes none
  std::uint64_t network = 0;  ///< equal where loopbacks are the same; 0: not known
  std::int32_t awake_us = 0;  ///< how long the rank polls after a message
  std::uint16_t port = 0;
  std::uint16_t count = 0;                           ///< of addresses
  std::array<in6_addr, most_addresses> addresses{};  ///< IPv4 ones mapped into IPv6 (RFC 4291)
};

/// Notifies an EventCount of this process when a rank on another machine sends a datagram (UDP) to
/// a port of its own, at which a thread waits. A datagram carries its receiver's token, so that
/// nobody else wakes it, and nothing more. It may be lost, or find no route at all: a sleeping rank
/// must poll now and then.
class DatagramNotifier {
 public:
  /// Notifies `event`, which outlives this. `awake`: how long the rank polls after a message.
  /// Throws std::exception where there are no sockets, threads or random numbers.
  DatagramNotifier(EventCount& event, std::chrono::microseconds awake);
  ~DatagramNotifier();
  DatagramNotifier(const DatagramNotifier&) = delete;
  DatagramNotifier& operator=(const DatagramNotifier&) = delete;

  [[nodiscard]] const NotifierAddress& address() const noexcept { return own_; }
  /// The addresses of all ranks, in rank order, before the first notify(). Returns how many ranks
  /// can be woken.
  int connect(std::span<const NotifierAddress> peers);
  /// A message for the rank is on its way: wakes it, unless it still polls after the one before, or
  /// takes no datagrams. Thread-safe.
  void notify(int rank) noexcept;

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

  EventCount& event_;
  NotifierAddress own_;
  int family_ = AF_INET6;  // IPv4 too
  Descriptor socket_, stop_;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace lockstep
