// Messages that are damaged are refused: never executed, never a crash, never much memory.
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/rpc/archive.hpp>
#include <lockstep/rpc/call.hpp>

namespace lockstep {
namespace {

using rpc::IncomingMessage;
using rpc::InputArchive;
using rpc::Kind;
using rpc::Limits;
using rpc::MalformedMessage;
using rpc::OutgoingMessage;
using rpc::OutputArchive;

constexpr Limits limits{.inline_bytes = 256, .message_bytes = 1 << 20, .tensor_bytes = 1 << 20};

struct Tree {
  int value = 0;
  std::vector<Tree> branches;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(value, branches);
  }
};
struct Chain {
  std::unique_ptr<Chain> next;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(next);
  }
};
using Arguments = std::tuple<std::string, std::vector<double>, std::map<int, std::vector<Tree>>,
                             std::vector<bool>, std::variant<int, std::string>, Tensor,
                             std::vector<Tensor>, std::optional<std::string>>;

Arguments arguments() {
  return {"a string of some length",
          {1.0, 2.0, 3.0},
          {{1, {{.value = 3, .branches = {{.value = 4, .branches = {}}}}}}, {9, {}}},
          {true, false, true},
          std::string("variant"),
          Tensor::full({3, 4}, 1.5),
          {Tensor::full({2}, 1, DType::boolean), Tensor(), Tensor::full({1000}, 1.0)},
          "optional"};
}

std::vector<std::byte> a_message() {
  OutgoingMessage message(Kind::call, limits);
  OutputArchive archive(message);
  archive(arguments());
  message.context().assign(5, std::byte{7});
  static_cast<void>(message.add(
      rpc::ReferenceEntry{.reference = 1, .fork = 2, .type = 3, .owner = 0, .parent = 1}));
  const Tensor sealed = message.seal(0);
  const auto* data = static_cast<const std::byte*>(sealed.data());
  return {data, data + sealed.bytes()};
}

/// Takes it apart as far as it goes; true if nothing was wrong with it.
bool reads(const std::vector<std::byte>& bytes) {
  const Tensor t = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  if (!bytes.empty()) std::memcpy(t.data(), bytes.data(), bytes.size());
  try {
    IncomingMessage message(t, 0, limits);
    message.allocate_awaited();
    Arguments all;
    rpc::detail::read(message, all);
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

TEST(Message, ThatIsWholeIsReadBack) {
  const auto bytes = a_message();
  const Tensor t = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  std::memcpy(t.data(), bytes.data(), bytes.size());
  IncomingMessage message(t, 3, limits);
  EXPECT_EQ(message.from(), 3);
  EXPECT_EQ(message.context().size(), 5U);
  EXPECT_EQ(message.references().size(), 1U);
  EXPECT_EQ(message.references()[0].type, 3U);
  ASSERT_EQ(message.awaited().size(), 1U);  // of 4000 bytes
  message.allocate_awaited();
  Arguments all;
  rpc::detail::read(message, all);
  EXPECT_EQ(std::get<0>(all), std::get<0>(arguments()));
  EXPECT_EQ(std::get<1>(all), std::get<1>(arguments()));
  EXPECT_EQ(std::get<2>(all).at(1)[0].branches[0].value, 4);
  EXPECT_EQ(std::get<3>(all), std::get<3>(arguments()));
  EXPECT_EQ(std::get<5>(all).to_vector<float>(), std::vector<float>(12, 1.5F));
  EXPECT_FALSE(std::get<6>(all)[1].defined());
  EXPECT_EQ(std::get<6>(all)[2].shape(), Shape({1000}));
}

TEST(Message, CutShortIsRefusedAtEveryLength) {
  const auto whole = a_message();
  ASSERT_TRUE(reads(whole));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(reads({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(reads(longer));
}

TEST(Message, WithFlippedBitsIsReadOrRefused) {
  const auto whole = a_message();
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same every time
  int refused = 0;
  constexpr int tries = 20000;
  for (int i = 0; i < tries; ++i) {
    auto damaged = whole;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < flips; ++k) {
      damaged[random() % damaged.size()] ^= std::byte{1} << random() % 8;
    }
    if (random() % 8 == 0) damaged.resize(random() % damaged.size());
    refused += reads(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, tries / 20);
}

TEST(Message, WithFieldsOfAnyValueIsReadOrRefused) {
  const auto whole = a_message();
  const std::uint64_t values[] = {0, 1, 0x7fffffff, 0xffffffff, 1ULL << 40U, ~0ULL, 1ULL << 63U};
  for (std::size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const std::uint64_t value : values) {
      auto damaged = whole;
      std::memcpy(damaged.data() + at, &value, sizeof(value));
      static_cast<void>(reads(damaged));
    }
  }
}

TEST(Message, WithAHugeAnnouncedSizeAllocatesNothing) {
  OutgoingMessage message(Kind::call, limits);
  OutputArchive archive(message);
  archive(std::uint64_t{1} << 40U);  // a vector of so many
  const Tensor sealed = message.seal(0);
  IncomingMessage received(sealed, 0, limits);
  std::vector<double> numbers;
  EXPECT_THROW(rpc::detail::read(received, numbers), MalformedMessage);
  EXPECT_EQ(numbers.capacity(), 0U);
}

TEST(Message, NestedTooDeeplyIsRefused) {
  OutgoingMessage message(Kind::call, limits);
  for (int i = 0; i < 100000; ++i) {
    const std::uint8_t valid = 1;
    message.write(&valid, 1);
  }
  const Tensor sealed = message.seal(0);
  IncomingMessage received(sealed, 0, limits);
  Chain chain;
  EXPECT_THROW(rpc::detail::read(received, chain), MalformedMessage);
}

TEST(Message, ThatIsTooLargeIsNotSent) {
  OutgoingMessage message(Kind::call, limits);
  OutputArchive archive(message);
  EXPECT_THROW(archive(std::string(2 << 20, 'x')), InputError);
}

}  // namespace
}  // namespace lockstep
