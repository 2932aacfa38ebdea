#include <lockstep/comm/engine/datagram_notifier.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/random_bits.hpp>
#include <lockstep/base/trace.hpp>

namespace lockstep {
namespace {

int expect(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

/// For IPv6 and IPv4; for IPv4 alone where the system has no IPv6.
int datagram_socket(int& family) {
  constexpr int type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int both = ::socket(AF_INET6, type, 0);
  const int no = 0;
  if (both >= 0 && ::setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) return both;
  if (both >= 0) ::close(both);
  family = AF_INET;
  return expect(::socket(family, type, 0), "socket");
}

/// An address of either family, as the socket calls take it.
struct SocketAddress {
  SocketAddress(int family, const in6_addr& address, std::uint16_t port) noexcept {
    if (family == AF_INET6) {
      ipv6.sin6_family = AF_INET6;
      ipv6.sin6_addr = address;
      ipv6.sin6_port = htons(port);
    } else {
      length = sizeof ipv4;
      ipv4.sin_family = AF_INET;
      std::memcpy(&ipv4.sin_addr, &address.s6_addr[12], sizeof ipv4.sin_addr);
      ipv4.sin_port = htons(port);
    }
  }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&ipv6); }

  union {
    sockaddr_in6 ipv6{};
    sockaddr_in ipv4;
  };
  socklen_t length = sizeof ipv6;
};

/// Binds to a free port on all addresses of this machine.
std::uint16_t bind_to_any_port(int socket, int family) {
  SocketAddress address(family, in6addr_any, 0);
  expect(::bind(socket, address.get(), address.length), "bind");
  expect(::getsockname(socket, address.get(), &address.length), "getsockname");
  return ntohs(family == AF_INET6 ? address.ipv6.sin6_port : address.ipv4.sin_port);
}

in6_addr mapped(const in_addr& ipv4) {
  in6_addr address{};
  address.s6_addr[10] = address.s6_addr[11] = 0xff;
  std::memcpy(&address.s6_addr[12], &ipv4, sizeof ipv4);
  return address;
}

bool has(const NotifierAddress& one, const in6_addr& address) {
  const auto* const end = one.addresses.begin() + one.count;
  return std::any_of(one.addresses.begin(), end,
                     [&](const in6_addr& own) { return IN6_ARE_ADDR_EQUAL(&own, &address) != 0; });
}

/// Adds the addresses at which other machines may reach this one, IPv4 first.
void add_addresses(NotifierAddress& own) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one && own.count < NotifierAddress::most_addresses;
         one = one->ifa_next) {
      const bool leads_out = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!leads_out || !one->ifa_addr || one->ifa_addr->sa_family != family) continue;
      const auto address =
          family == AF_INET ? mapped(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr)
                            : reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      // A link-local address is useless without its interface number, which differs by machine.
      if (!IN6_IS_ADDR_LINKLOCAL(&address)) own.addresses[own.count++] = address;
    }
  }
}

/// Equal for processes that reach each other over the loopback: same boot of the system and same
/// network namespace. 0 if unknown.
std::uint64_t this_network() {
  std::string boot = boot_id();
  struct stat network {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) return 0;
  boot += "/" + std::to_string(network.st_dev) + "/" + std::to_string(network.st_ino);
  return hash64(boot.data(), boot.size());
}

}  // namespace

DatagramNotifier::DatagramNotifier(EventCount& event, std::chrono::microseconds awake)
    : event_(event),
      socket_(datagram_socket(family_)),
      stop_(expect(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  own_.token = std::max<std::uint64_t>(1, random_bits());
  own_.network = this_network();
  own_.awake_us = static_cast<std::int32_t>(awake.count());
  own_.port = bind_to_any_port(socket_.get(), family_);
  add_addresses(own_);
  thread_ = std::thread([this] { listen(); });
}

DatagramNotifier::~DatagramNotifier() {
  static_cast<void>(::eventfd_write(stop_.get(), 1));
  thread_.join();
}

void DatagramNotifier::listen() noexcept {
  name_thread("datagram wake-up");
  for (;;) {
    std::array<pollfd, 2> ready{{{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (ready[1].revents != 0 || (ready[0].revents & POLLNVAL) != 0) return;
    // An error belongs to a datagram sent earlier: ignore it.
    std::array<std::uint64_t, 2> text{};
    const auto bytes = ::recv(socket_.get(), text.data(), sizeof text, 0);
    if (bytes == sizeof own_.token && text[0] == own_.token) event_.notify();
  }
}

int DatagramNotifier::connect(std::span<const NotifierAddress> peers) {
  const in6_addr loopback = mapped({htonl(INADDR_LOOPBACK)});
  peers_ = std::vector<Peer>(peers.size());
  auto next = peers_.begin();
  for (const NotifierAddress& peer : peers) {
    Peer& known = *next++;
    if (peer.token == 0) continue;
    known.token = peer.token;
    known.port = peer.port;
    known.awake = std::chrono::microseconds(peer.awake_us);
    // Count the peer as asleep. The clock may have started with the machine, so its zero may be
    // less than `awake` ago.
    known.last_message = (Clock::now().time_since_epoch() - known.awake).count();
    if (peer.network != 0 && peer.network == own_.network) {
      known.addresses = {loopback};
      continue;
    }
    // Both machines have this address (a container bridge, for example), so it does not lead to the
    // peer.
    for (std::size_t i = 0; i < std::min<std::size_t>(peer.count, NotifierAddress::most_addresses);
         ++i) {
      const in6_addr& address = peer.addresses[i];
      const bool has_way = family_ == AF_INET6 || IN6_IS_ADDR_V4MAPPED(&address);
      if (has_way && !has(own_, address)) known.addresses.push_back(address);
    }
  }
  return static_cast<int>(
      std::ranges::count_if(peers_, [](const Peer& p) { return !p.addresses.empty(); }));
}

void DatagramNotifier::notify(int rank) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.addresses.empty()) return;
  const auto now = Clock::now().time_since_epoch();
  const Clock::duration before(peer.last_message.exchange(now.count(), std::memory_order_relaxed));
  if (now - before < peer.awake) return;
  for (const in6_addr& address : peer.addresses) send(peer.token, address, peer.port);
}

// A datagram that cannot be sent counts as lost.
void DatagramNotifier::send(std::uint64_t token, const in6_addr& address,
                            std::uint16_t port) const noexcept {
  SocketAddress to(family_, address, port);
  static_cast<void>(
      ::sendto(socket_.get(), &token, sizeof token, MSG_NOSIGNAL, to.get(), to.length));
}

}  // namespace lockstep
