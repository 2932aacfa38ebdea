// Tensors in calls: short ones in the message, long ones on their own.
#include <map>
#include <vector>

#include <comm/tensors.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

Tensor echo(const Tensor& t) { return t; }
Tensor sum_of(const std::vector<Tensor>& all) {
  double sum = 0;
  for (const Tensor& t : all) {
    for (const float x : t.to_vector<float>()) sum += static_cast<double>(x);
  }
  return Tensor::full({}, sum, DType::f64);
}
std::map<std::string, Tensor> two_of(const Tensor& t) { return {{"a", t}, {"b", t.clone()}}; }
bool is_defined(const Tensor& t) { return t.defined(); }
LOCKSTEP_RPC_AS("tensors echo", echo);
LOCKSTEP_RPC(sum_of);
LOCKSTEP_RPC(two_of);
LOCKSTEP_RPC(is_defined);

TEST(RpcTensors, OfEveryDtypeAndLengthComeBack) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    for (const DType dtype : test::every_dtype) {
      for (const std::int64_t n : {0, 1, 7, 1000, 20000}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " x " + std::to_string(n));
        const auto expected = test::values(dtype, group.rank(), n);
        const auto sent = test::tensor_of({n}, dtype, expected);
        const Tensor back = rpc::rpc_sync(test::after(group), echo, sent);
        EXPECT_EQ(back.dtype(), dtype);
        EXPECT_EQ(back.shape(), Shape({n}));
        EXPECT_EQ(test::values_of(back), expected);
        EXPECT_NE(back.storage().get(), sent.storage().get());
      }
    }
  });
}

TEST(RpcTensors, OfADeviceArriveOnTheHost) {
  test::on_workers([](ProcessGroup& group) {
    for (const std::int64_t n : {0, 7, 20000}) {  // the last on its own
      const auto sent = Tensor::full({n}, 2.5, DType::f32, {DeviceType::sim, group.rank()});
      const Tensor back = rpc::rpc_sync(test::after(group), echo, sent);
      EXPECT_EQ(back.device(), Device{});
      EXPECT_EQ(back.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(n), 2.5F));
    }
    const auto image = Tensor::full({1, 2, 2, 2, 16}, 2.5, DType::f32, {DeviceType::sim, 0})
                           .with_layout(Layout::channel_blocks);
    const Tensor back = rpc::rpc_sync(test::after(group), echo, image);
    EXPECT_EQ(back.layout(), Layout::channel_blocks);
    EXPECT_EQ(back.shape(), image.shape());
    EXPECT_EQ(back.with_layout(Layout::plain).to_vector<float>(), std::vector<float>(128, 2.5F));
  });
}

TEST(RpcTensors, KeepTheirShapesAndMayBeSlicesOrNone) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    std::vector<float> numbers(60);
    for (std::size_t i = 0; i < 60; ++i) numbers[i] = static_cast<float>(i);
    const auto whole = Tensor::from(numbers, {5, 3, 4});
    const Tensor back = rpc::rpc_sync(to, echo, whole.slice(1, 3));
    EXPECT_EQ(back.shape(), Shape({2, 3, 4}));
    EXPECT_EQ(back.to_vector<float>(),
              std::vector<float>(numbers.begin() + 12, numbers.begin() + 36));
    EXPECT_EQ(rpc::rpc_sync(to, echo, Tensor::full({}, 3)).shape(), Shape({}));
    EXPECT_EQ(rpc::rpc_sync(to, echo, Tensor::empty({3, 0, 2})).shape(), Shape({3, 0, 2}));
    EXPECT_FALSE(rpc::rpc_sync(to, is_defined, Tensor()));
    EXPECT_FALSE(rpc::rpc_sync(to, echo, Tensor()).defined());
    const auto image = Tensor::full({1, 2, 2, 2, 16}, 1.0).with_layout(Layout::channel_blocks);
    EXPECT_EQ(rpc::rpc_sync(to, echo, image).layout(), Layout::channel_blocks);
  });
}

TEST(RpcTensors, TravelInContainersBothWays) {
  test::on_workers([](ProcessGroup& group) {
    std::vector<Tensor> all;
    double expected = 0;
    for (int i = 0; i < 20; ++i) {
      const std::int64_t n = i % 3 == 0 ? 20000 : i;
      all.push_back(Tensor::full({n}, i));
      expected += static_cast<double>(n) * i;
    }
    EXPECT_EQ(rpc::rpc_sync(test::after(group), sum_of, all).item(), expected);
    const auto both = rpc::rpc_sync(test::after(group), two_of, Tensor::full({20000}, 2.5));
    EXPECT_EQ(both.at("a").to_vector<float>(), std::vector<float>(20000, 2.5F));
    EXPECT_EQ(both.at("b").to_vector<float>(), std::vector<float>(20000, 2.5F));
  });
}

TEST(RpcTensors, OfManyCallsAtOnceReachTheirCalls) {
  test::on_workers([](ProcessGroup& group) {
    std::vector<rpc::Future<Tensor>> futures;
    for (int i = 0; i < 60; ++i) {
      futures.push_back(
          rpc::rpc_async(i % group.size(), echo, Tensor::full({i % 2 == 0 ? 4 : 20000}, i)));
    }
    for (int i = 0; i < 60; ++i) {
      const auto& t = futures[static_cast<std::size_t>(i)].wait();
      EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(i));
    }
  });
}

Tensor large() { return Tensor::full({500'000}, 1.0); }
LOCKSTEP_RPC_AS("large tensor", large);

TEST(RpcTensors, LargerThanAllowedAreRefusedByTheSender) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int to = test::after(group);
        const auto start = Clock::now();
        const auto refusal = [](const std::string& said) {
          return said.find("take 2000000 bytes, more than Options::max_tensor_bytes, 1000000") !=
                 std::string::npos;
        };
        EXPECT_TRUE(
            refusal(test::thrown_by<InputError>([&] { rpc::rpc_sync(to, echo, large()); })));
        EXPECT_TRUE(refusal(test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, large); })));
        EXPECT_EQ(rpc::rpc_sync(to, echo, Tensor::full({200'000}, 1.0)).numel(), 200'000);
        EXPECT_LT(seconds_since(start), 30);
      },
      {.max_tensor_bytes = 1'000'000});
}

}  // namespace
}  // namespace lockstep
