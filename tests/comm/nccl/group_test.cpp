// The nccl backend with a stand-in for NCCL and the GPUs: behaviour without faults.
#include <array>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <comm/nccl/ranks.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/nccl/events.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using test::device_of;
using test::floats;
using test::of;
using test::on_device;
using test::on_ranks;
using test::StandIn;

TEST(NcclGroup, AWaitOrdersTheStreamAndDoesNotHoldTheHost) {
  on_ranks(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(1000, 1.0F)), after = on_device(me, of(1000, 0.0F));
    test::stop_device(group, gpus);
    Work work = group.all_reduce(t, ReduceOp::sum);
    work.wait();
    EXPECT_FALSE(work.test());  // and yet it returned
    after.copy_from(t);
    test::meet(group);
    if (me == 0) gpus.stopped_device = -1;
    EXPECT_EQ(floats(after), of(1000, 2.0F));
    work.synchronize();
    EXPECT_TRUE(work.test());
  });
}

TEST(NcclGroup, TheInputIsReadAfterEarlierWorkOfTheCurrentStream) {
  on_ranks(3, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    for (int i = 0; i < 20; ++i) {
      SimulatedRuntime::instance().set_seed(static_cast<std::uint64_t>(i));
      const auto t = on_device(me, of(100, -1.0F));
      t.fill(me + i);
      group.all_reduce(t, ReduceOp::max).synchronize();
      EXPECT_EQ(floats(t), of(100, static_cast<float>(2 + i)));
    }
  });
}

#ifndef __SANITIZE_THREAD__  // a forgotten wait is a data race
/// The data read after a wait(), on a device that skips its nth wait.
float summed_with_lost_wait(ProcessGroup& group, std::int64_t lost, std::uint64_t seed) {
  auto& runtime = SimulatedRuntime::instance();
  const int me = group.rank();
  const auto input = on_device(me, of(64, 1.0F)), sum = on_device(me, of(64, 0.0F)),
             result = on_device(me, of(64, 0.0F));
  current_stream(device_of(me)).synchronize();
  runtime.set_seed(seed);
  runtime.inject(me, {.lost_wait_at = lost});
  input.fill(2.0);
  group.all_reduce(input, sum, ReduceOp::sum).wait();
  result.copy_from(sum);
  runtime.let_go(me);
  return floats(result).front();
}

TEST(NcclGroup, EachWaitOfAStreamIsNeeded) {
  on_ranks(1, [](ProcessGroup& group, StandIn&) {
    std::array<int, 3> wrong{};
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      for (const std::size_t lost : {0U, 1U, 2U}) {
        if (summed_with_lost_wait(group, static_cast<std::int64_t>(lost), seed) != 2.0F)
          ++wrong.at(lost);
      }
      group.barrier();
    }
    EXPECT_EQ(wrong[0], 0);
    EXPECT_GT(wrong[1], 0) << "of NCCL's stream for the input";
    EXPECT_GT(wrong[2], 0) << "for the result";
  });
}
#endif

TEST(NcclGroup, OverAPartKnowsItsGlobalRanksAndTheRanksOutside) {
  const auto gpus = std::make_shared<StandIn>();
  run_ranks_as_threads(
      4,
      [&](ProcessGroup& everybody) {
        const int me = everybody.rank();
        const auto part = everybody.new_group({3, 1});
        const auto group = make_nccl_group(gpus, part, device_of(me), test::late);
        EXPECT_EQ(group->ranks(), (std::vector<int>{3, 1}));
        EXPECT_EQ(group->size(), 2);
        EXPECT_EQ(group->group_rank(1), 1);
        if (me % 2 == 0) {
          EXPECT_EQ(group->rank(), -1);
          EXPECT_STREQ(group->backend(), "none");
          EXPECT_THROW(group->barrier(), Error);
        } else {
          EXPECT_EQ(group->rank(), me == 3 ? 0 : 1);
          EXPECT_STREQ(group->backend(), "nccl");
          const auto t = on_device(me, of(5, static_cast<float>(me)));
          group->all_reduce(t, ReduceOp::sum).synchronize();
          EXPECT_EQ(floats(t), of(5, 4.0F));
          const auto one = group->new_group({0});
          EXPECT_EQ(one->ranks(), std::vector<int>{3});
          EXPECT_EQ(one->rank(), me == 3 ? 0 : -1);
          one->close();
          EXPECT_EQ(duplicate_of(*group)->ranks(), group->ranks());
        }
        group->close();
      },
      test::late);
  for (const auto& violation : gpus->violations()) ADD_FAILURE() << violation;
}

TEST(NcclGroup, ACoalescedSynchronizeHoldsTheHost) {
  on_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto a = on_device(me, of(10, 1.0F)), b = on_device(me, of(20, 2.0F));
    Coalescing batch(group);
    static_cast<void>(group.all_reduce(a, ReduceOp::sum));
    static_cast<void>(group.all_reduce(b, ReduceOp::sum));
    Work work = batch.end();
    work.synchronize();
    EXPECT_TRUE(work.test());
    const StreamGuard another(Stream::from_pool(device_of(me)));  // which waits for nothing
    EXPECT_EQ(floats(a), of(10, 2.0F));
    EXPECT_EQ(floats(b), of(20, 4.0F));
  });
}

TEST(NcclGroup, ABatchIsOneGroupOfCalls) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      2,
      [](ProcessGroup& group, StandIn& here) {
        const int me = group.rank(), other = 1 - me;
        const auto out = on_device(me, of(50, static_cast<float>(me)));
        const auto in = on_device(me, of(50, -1.0F)), sum = on_device(me, of(5, 1.0F));
        const auto on_host = Tensor::zeros({3});
        const std::vector<P2POp> of_hosts{{P2POp::Kind::isend, Tensor::full({3}, me), other},
                                          {P2POp::Kind::irecv, on_host, other}};
        Coalescing batch(group);
        static_cast<void>(group.isend(out, other));
        std::thread([&] { batch_isend_irecv(group, of_hosts).wait(); }).join();
        EXPECT_EQ(on_host.to_vector<float>(), of(3, static_cast<float>(other)));
        static_cast<void>(group.all_reduce(sum, ReduceOp::sum));
        static_cast<void>(group.irecv(in, other));
        EXPECT_EQ(here.calls("ncclGroupStart"), 0);
        test::meet(group);
        batch.end().wait();
        EXPECT_EQ(floats(in), of(50, static_cast<float>(other)));
        EXPECT_EQ(floats(sum), of(5, 2.0F));
      },
      test::late, gpus);
  EXPECT_EQ(gpus->calls("ncclGroupStart"), 2);  // one a rank
  EXPECT_EQ(gpus->calls("ncclGroupEnd"), 2);
}

// NCCL keeps an open group by thread: calls on another communicator would go into it.
TEST(NcclGroup, BatchesOfSeveralGroupsMayBeOpenAtOnce) {
  on_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto second = group.split(0, me);
    const auto a = on_device(me, of(8, 1.0F)), b = on_device(me, of(8, 2.0F)),
               c = on_device(me, of(8, 3.0F));
    Coalescing one(group), two(*second);
    static_cast<void>(group.all_reduce(a, ReduceOp::sum));
    static_cast<void>(second->all_reduce(b, ReduceOp::sum));
    static_cast<void>(group.all_reduce(c, ReduceOp::sum));
    Work first = one.end();
    first.wait();  // while the other is open
    EXPECT_EQ(floats(a), of(8, 2.0F));
    EXPECT_EQ(floats(c), of(8, 6.0F));
    two.end().wait();
    EXPECT_EQ(floats(b), of(8, 4.0F));
    second->close();
  });
}

TEST(NcclGroup, ABatchLeftByAnExceptionLeavesNothingOpen) {
  on_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto second = group.split(0, me);
    const auto t = on_device(me, of(8, 1.0F));
    const std::vector<P2POp> wrong{{P2POp::Kind::isend, t, 7}};
    EXPECT_THROW(static_cast<void>(batch_isend_irecv(group, wrong)), ShapeError);
    second->all_reduce(t, ReduceOp::sum).wait();
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(floats(t), of(8, 4.0F));
    second->close();
  });
}

TEST(NcclGroup, WaitsForASlowNccl) {
  const auto gpus = std::make_shared<StandIn>();
  gpus->polls = 7;
  on_ranks(
      3,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        std::vector<Tensor> tensors;
        std::vector<Work> works;
        for (int i = 0; i < 10; ++i) {
          tensors.push_back(on_device(me, of(64, static_cast<float>(i))));
          works.push_back(group.all_reduce(tensors.back(), ReduceOp::sum));
        }
        for (std::size_t i = 10; i-- > 0;) {
          works[i].wait();
          EXPECT_EQ(floats(tensors[i]), of(64, 3.0F * static_cast<float>(i)));
        }
        group.close();
      },
      test::late, gpus);
  EXPECT_EQ(gpus->calls("ncclCommAbort"), 0);
  EXPECT_EQ(gpus->calls("ncclCommDestroy"), 3);
}

// Each rank makes the calls on its groups in another order. A device would wait for ever for a peer
// that runs another kernel.
TEST(NcclGroup, CollectivesOfAllGroupsAreLaunchedInOneOrderOnEveryRank) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      3,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        const auto second = group.split(0, me), third = group.split(0, -me);
        const std::array<ProcessGroup*, 3> groups{&group, second.get(), third.get()};
        for (int i = 0; i < 30; ++i) {
          std::array<Tensor, 3> tensors;
          std::array<Work, 3> works;
          for (std::size_t k = 0; k < 3; ++k) {
            const std::size_t g =
                (k * static_cast<std::size_t>(1 + i % 2) + static_cast<std::size_t>(me + i)) % 3;
            tensors[g] = on_device(me, of(8, static_cast<float>(g + 1)));
            works[g] = groups[g]->all_reduce(tensors[g], ReduceOp::sum);
          }
          for (Work& work : works) work.wait();
          for (std::size_t g = 0; g < 3; ++g) {
            EXPECT_EQ(floats(tensors[g]), of(8, 3.0F * static_cast<float>(g + 1)));
          }
        }
        third->close();
        second->close();
      },
      test::late, gpus);
  EXPECT_EQ(gpus->launches(0).size(), 90U);
  EXPECT_EQ(gpus->launches(0), gpus->launches(1));
  EXPECT_EQ(gpus->launches(0), gpus->launches(2));
}

// As ring attention's messages beside the buckets of DistributedDataParallel. Which of the two a
// device gets first differs by rank: on one stream each would wait for the other's peer.
TEST(NcclGroup, MessagesOfOneGroupAndCollectivesOfAnotherMayBeLaunchedInAnyOrder) {
  on_ranks(2,
           [](ProcessGroup& group, StandIn&) {
             const int me = group.rank(), other = 1 - me;
             const auto ring = group.split(0, me);
             for (int i = 0; i < 100; ++i) {
               const auto sum = on_device(me, of(8, static_cast<float>(i)));
               const auto out = on_device(me, of(8, static_cast<float>(me + i)));
               const auto in = on_device(me, of(8, -1.0F));
               const auto reduce = [&] { return group.all_reduce(sum, ReduceOp::sum); };
               const auto exchange = [&] {
                 return batch_isend_irecv(
                     *ring, {{P2POp::Kind::isend, out, other}, {P2POp::Kind::irecv, in, other}});
               };
               Work first = me == 0 ? reduce() : exchange();
               Work second = me == 0 ? exchange() : reduce();
               second.wait();
               first.wait();
               EXPECT_EQ(floats(sum), of(8, 2.0F * static_cast<float>(i)));
               EXPECT_EQ(floats(in), of(8, static_cast<float>(other + i)));
             }
             ring->close();
           },
           {.timeout = std::chrono::seconds(20)});
}

// ncclAvg multiplies by 1/3 in bf16 before it adds: 0.2 % too much.
TEST(NcclGroup, AMeanInBf16IsTheSumScaled) {
  on_ranks(3, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto t = Tensor::full({33}, 3.0, DType::bf16, device_of(me)),
               at_root = Tensor::zeros({33}, DType::bf16, device_of(me));
    const auto rows = Tensor::full({3, 11}, 3.0, DType::bf16, device_of(me)),
               row = Tensor::zeros({11}, DType::bf16, device_of(me));
    group.reduce(t, at_root, 1, ReduceOp::avg).wait();
    group.all_reduce(t, ReduceOp::avg).wait();
    group.reduce_scatter(rows, row, ReduceOp::avg).wait();
    for (const Tensor& mean : {t, row, me == 1 ? at_root : t}) {
      for (const float element : floats(mean.to(DType::f32))) EXPECT_EQ(element, 3.0F);
    }
  });
}

TEST(NcclGroup, AMeanInF32HasTheBitsOfTheHostsMean) {
  on_ranks(3, [](ProcessGroup& group, StandIn&) {
    std::vector<float> elements;
    for (int i = 0; i < 500; ++i) {
      elements.push_back(1.0F / static_cast<float>(3 + i * 7 % 101 + group.rank() * 13));
    }
    const auto host = Tensor::from(elements), device = on_device(group.rank(), elements);
    group.all_reduce(host, ReduceOp::avg).wait();
    group.all_reduce(device, ReduceOp::avg).wait();
    EXPECT_EQ(floats(host), floats(device));
  });
}

TEST(NcclGroup, BitwiseReductionsOfDeviceTensorsGoByTheHost) {
  on_ranks(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = Tensor::full({4}, me == 0 ? 5 : 6, DType::i32, device_of(me));
    group.all_reduce(t, ReduceOp::bxor).wait();
    EXPECT_EQ(t.to_vector<std::int32_t>(), std::vector<std::int32_t>(4, 3));
    Coalescing batch(group);
    static_cast<void>(group.all_reduce(t, ReduceOp::bor));
    EXPECT_THROW(group.barrier(), Error);
    static_cast<void>(batch.end());
    EXPECT_EQ(gpus.calls("ncclAllReduce"), 0);
    group.barrier();  // a refused call has taken no number
  });
}

TEST(NcclGroup, HostTensorsGoByTheControlGroup) {
  on_ranks(3, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    EXPECT_EQ(all_reduce_scalar(group, me, ReduceOp::sum), 3.0);
    EXPECT_EQ(all_gather_object(group, std::to_string(me)),
              (std::vector<std::string>{"0", "1", "2"}));
    const auto host = group.shared_buffer({4}, DType::f32);
    const auto device = on_device(me, of(4, 1.0F));
    host.fill(1.0);
    Work a = group.all_reduce(device, ReduceOp::sum), b = group.all_reduce(host, ReduceOp::sum);
    b.wait();
    a.wait();
    EXPECT_EQ(host.to_vector<float>(), of(4, 3.0F));
    EXPECT_EQ(floats(device), of(4, 3.0F));
    EXPECT_STREQ(group.backend(), "nccl");
  });
}

TEST(NcclGroup, RefusesTensorsOfAnotherDeviceTagsAndAnySource) {
  on_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto here = on_device(me, of(4, 1.0F)), there = on_device(1 - me, of(4, 1.0F));
    EXPECT_THROW(static_cast<void>(group.all_reduce(there, ReduceOp::sum)), ShapeError);
    EXPECT_THROW(static_cast<void>(group.all_reduce(Tensor::zeros({4}), here, ReduceOp::sum)),
                 ShapeError);
    EXPECT_THROW(static_cast<void>(group.isend(here, 1 - me, 3)), ShapeError);
    EXPECT_THROW(static_cast<void>(group.irecv(here, any_source)), ShapeError);
    group.all_reduce(here, ReduceOp::sum).wait();
    EXPECT_EQ(floats(here), of(4, 2.0F));
  });
}

// An event recorded in a capture belongs to the graph: NCCL's stream must not wait for it.
TEST(NcclGroup, ACallInACaptureIsRefusedAndLeavesTheGroupAsItWas) {
  on_ranks(1, [](ProcessGroup& group, StandIn& gpus) {
    const auto t = on_device(0, of(4, 3.0F));
    const auto bits = Tensor::full({4}, 5, DType::i32, device_of(0));
    const std::array<std::function<void()>, 4> calls{
        [&] { group.all_reduce(t, ReduceOp::sum).wait(); }, [&] { group.barrier(); },
        [&] { group.all_reduce(bits, ReduceOp::bxor).wait(); },
        [&] { static_cast<void>(group.isend(t, 0)); }};
    DeviceGraph graph(device_of(0));
    for (const auto& call : calls) {
      const auto message = test::message_of<Error>([&] { graph.capture(call); });
      EXPECT_NE(message.find("cannot be captured"), std::string::npos) << message;
    }
    const int before = gpus.calls("ncclAllReduce");
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(floats(t), of(4, 3.0F));
    EXPECT_EQ(gpus.calls("ncclAllReduce"), before + 1);
    group.barrier();
  });
}

TEST(NcclGroup, AWaitInACaptureIsRefusedAndAnythingElseThereLeavesTheDeviceAlone) {
  on_ranks(1, [](ProcessGroup& group, StandIn&) {
    const auto t = on_device(0, of(4, 3.0F)), u = on_device(0, of(4, 1.0F));
    Work before = group.all_reduce(t, ReduceOp::sum);
    DeviceGraph graph(device_of(0));
    const auto message = test::message_of<Error>([&] { graph.capture([&] { before.wait(); }); });
    EXPECT_NE(message.find("nor awaited"), std::string::npos) << message;
    EXPECT_FALSE(graph.is_captured());
    Work other = group.all_reduce(u, ReduceOp::sum);
    graph.capture([&] {
      group.all_reduce(Tensor::zeros({3}), ReduceOp::sum).wait();  // on the host: moves others on
      t.fill(7.0);
    });
    before.wait();
    other.wait();
    EXPECT_EQ(floats(t), of(4, 3.0F));
    graph.replay();
    EXPECT_EQ(floats(t), of(4, 7.0F));
    group.barrier();
  });
}

TEST(NcclGroup, TheCostOfACallDoesNotGrowWithThoseInFlight) {
  for (const Contract contract : {Contract::off, Contract::late}) {
    const auto claim = [](ProcessGroup& group, StandIn& gpus) {
      constexpr int calls = 20;
      const int me = group.rank();
      const auto t = on_device(me, of(4, 1.0F));
      test::stop_device(group, gpus);
      const auto waits = [&] { return SimulatedRuntime::instance().counts(me).waits; };
      const auto before = waits();
      const int asked_before = gpus.calls("ncclCommGetAsyncError");
      for (int i = 0; i < calls; ++i) group.all_reduce(t, ReduceOp::sum).wait();
      // Two waits, of NCCL's stream for the input and of the current one for the result, and one
      // query; a few queries more by the engine's thread.
      EXPECT_LE(waits() - before, 4 * calls);
      // Once a launch and once for the oldest, on both ranks; some more by the engine's thread.
      EXPECT_LE(gpus.calls("ncclCommGetAsyncError") - asked_before, 2 * 4 * calls);
      test::meet(group);
      if (me == 0) gpus.stopped_device = -1;
      group.close();
    };
    on_ranks(2, claim, {.timeout = std::chrono::seconds(60), .contract = contract});
  }
}

TEST(NcclGroup, EventsAreMadeOnceAndUsedAgain) {
  EventPool pool(device_of(0));
  DeviceEvent* const first = pool.take();
  DeviceEvent* const second = pool.take();
  EXPECT_NE(first, second);
  pool.give(first);
  EXPECT_EQ(pool.take(), first);
}

TEST(NcclGroup, ASplitIsOneOfNccls) {
  for (const bool has_split : {true, false}) {
    const auto gpus = std::make_shared<StandIn>();
    gpus->has_split = has_split;
    on_ranks(
        4,
        [](ProcessGroup& group, StandIn&) {
          const int me = group.rank();
          const auto busy = on_device(me, of(100, 1.0F));
          group.all_reduce(busy, ReduceOp::sum).wait();  // which a split must not meet
          const auto part = group.split(me == 3 ? -1 : me % 2, -me);
          if (me == 3) {
            EXPECT_EQ(part->rank(), -1);
          } else {
            EXPECT_EQ(part->ranks(), me == 1 ? std::vector<int>{1} : (std::vector<int>{2, 0}));
            const auto t = on_device(me, of(8, static_cast<float>(me + 1)));
            const auto rows = Tensor::zeros({part->size(), 8}, DType::f32, device_of(me));
            part->all_gather(t, rows).wait();
            part->all_reduce(t, ReduceOp::sum).wait();
            EXPECT_EQ(floats(t), of(8, me == 1 ? 2.0F : 4.0F));
            EXPECT_EQ(floats(rows).front(), me == 1 ? 2.0F : 3.0F);
            part->close();
          }
          EXPECT_EQ(floats(busy), of(100, 4.0F));
        },
        test::late, gpus);
    EXPECT_EQ(gpus->calls("ncclCommSplit"), has_split ? 4 : 0);
    EXPECT_EQ(gpus->calls("ncclCommInitRankConfig"), has_split ? 4 : 7);
  }
}

TEST(NcclGroup, OperationsAreInTheFlightRecorder) {
  const auto recorder = FlightRecorder::open({.job = 5, .rank = 0, .size = 1}, "");
  ASSERT_TRUE(recorder);
  on_ranks(1, [&](ProcessGroup& group, StandIn&) {
    const auto t = on_device(0, of(16, 0.0F));
    group.all_reduce(t, ReduceOp::max).synchronize();
    const FlightRing ring = read_flight_ring(recorder->path());
    ASSERT_EQ(ring.groups.size(), 1U);
    ASSERT_FALSE(ring.groups[0].calls.empty());
    const FlightCall& last = ring.groups[0].calls.back();
    EXPECT_EQ(last.what.rfind("all_reduce(max) #1 of f32[16]", 0), 0U) << last.what;
    EXPECT_EQ(last.state, FlightCall::State::completed);
    EXPECT_EQ(ring.groups[0].members, std::vector<int>{0});
  });
}

TEST(NcclGroup, ABuildWithoutNcclRefusesGpus) {
#ifndef LOCKSTEP_ENABLE_NCCL
  run_ranks_as_threads(2, [](ProcessGroup& control) {
    const std::shared_ptr<ProcessGroup> shared(&control, [](ProcessGroup*) {});
    EXPECT_EQ(make_group(shared, {}), shared);
    EXPECT_THROW(static_cast<void>(make_nccl_group(shared, {DeviceType::cuda, 0})), InputError);
  });
#endif
}

TEST(MakeGroup, IsTheHostsGroupForADeviceThatNcclDoesNotServe) {
  run_ranks_as_threads(2, [](ProcessGroup& control) {
    const std::shared_ptr<ProcessGroup> shared(&control, [](ProcessGroup*) {});
    EXPECT_EQ(make_group(shared, {}), shared);
    EXPECT_EQ(make_group(shared, {DeviceType::sim, control.rank()}), shared);
    const Device gpu{DeviceType::cuda, 0};
    EXPECT_TRUE(has_nccl() || make_group(shared, gpu) == shared);
  });
}

TEST(MakeGroup, IsAnNcclGroupForDevicesThatTestsServe) {
  use_nccl_api(std::make_shared<StandIn>());
  run_ranks_as_threads(2, [](ProcessGroup& control) {
    const std::shared_ptr<ProcessGroup> shared(&control, [](ProcessGroup*) {});
    EXPECT_STREQ(make_group(shared, device_of(control.rank()))->backend(), "nccl");
    EXPECT_EQ(make_group(shared, device_of(1)), shared);  // they share it
  });
  use_nccl_api(nullptr);
}

TEST(MakeGroup, RefusesRanksOnDevicesOfTwoKinds) {
  run_ranks_as_threads(3, [](ProcessGroup& control) {
    const std::shared_ptr<ProcessGroup> shared(&control, [](ProcessGroup*) {});
    const Device device{control.rank() == 2 ? DeviceType::sim : DeviceType::host, 0};
    const auto message =
        test::message_of<InputError>([&] { static_cast<void>(make_group(shared, device)); });
    EXPECT_NE(message.find("rank 0 on host, rank 2 on sim:0"), std::string::npos) << message;
  });
}

TEST(NcclGroup, ARankWithoutItsDeviceIsAnErrorOnEveryRank) {
  const auto gpus = std::make_shared<StandIn>();
  for (const Device missing : {Device{DeviceType::sim, 9}, Device{DeviceType::cuda, 0}}) {
    run_ranks_as_threads(2, [&](ProcessGroup& control) {
      const std::shared_ptr<ProcessGroup> shared(&control, [](ProcessGroup*) {});
      const Device device = control.rank() == 1 ? missing : device_of(0);
      const auto message = test::message_of<InputError>(
          [&] { static_cast<void>(make_nccl_group(gpus, shared, device, test::late)); });
      EXPECT_NE(message.find("but rank 1"), std::string::npos) << message;
      EXPECT_NE(message.find(to_string(missing)), std::string::npos) << message;
    });
  }
}

}  // namespace
}  // namespace lockstep
