// Functions that answer later than they return.
#include <mutex>
#include <thread>
#include <vector>

#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::Future;
using rpc::Promise;

/// Answers when so many have asked, all with the sum of their numbers.
class Batcher {
 public:
  Future<int> add(int number, int many) {
    const std::lock_guard lock(mutex_);
    sum_ += number;
    const Promise<int> promise = promise_;
    if (++count_ == many) {
      promise_.set_value(sum_);
      promise_ = Promise<int>();
      sum_ = count_ = 0;
    }
    return promise.future();
  }

 private:
  std::mutex mutex_;
  int sum_ = 0, count_ = 0;
  Promise<int> promise_;
};

Future<int> batched(int number, int many) {
  static Batcher batchers[64];  // one a rank: ranks may be threads
  return batchers[rpc::this_worker().id].add(number, many);
}
Future<int> later_error() {
  const Promise<int> promise;
  promise.set_exception(std::make_exception_ptr(std::runtime_error("too late")));
  return promise.future();
}
int one_more(int a) { return a + 1; }
/// Calls a third worker without blocking a thread.
Future<int> by_way_of(int third, int a) {
  return rpc::rpc_async(third, one_more, a).then([](const Future<int>& f) {
    return f.wait() + 100;
  });
}
Future<int> forgets() { return Promise<int>().future(); }
struct Picky {
  int value = 0;
  Picky() = default;
  Picky(const char*) { throw std::runtime_error("not a number"); }  // NOLINT: converted to
  template <class Archive>
  void serialize(Archive& archive) {
    archive(value);
  }
};
Future<Picky> converts() {
  const Promise<Picky> promise;
  EXPECT_THROW(promise.set_value("x"), std::runtime_error);
  return promise.future();
}
LOCKSTEP_RPC(forgets);
LOCKSTEP_RPC(converts);
LOCKSTEP_RPC(batched);
LOCKSTEP_RPC(later_error);
LOCKSTEP_RPC_AS("async one_more", one_more);
LOCKSTEP_RPC(by_way_of);

// With one thread that executes, a function that waited would never be asked a second time.
TEST(AsyncExecution, ABatchAnswersAllItsCallersAtOnce) {
  for (const int workers : {1, 0}) {
    test::on_workers(
        [](ProcessGroup& group) {
          std::vector<Future<int>> futures;
          for (int i = 0; i < 5; ++i) {
            futures.push_back(rpc::rpc_async(0, batched, 1, 5 * group.size()));
          }
          for (const auto& future : futures) EXPECT_EQ(future.wait(), 5 * group.size());
        },
        {.workers = workers});
  }
}

TEST(AsyncExecution, PassesErrorsOn) {
  test::on_workers([](ProcessGroup& group) {
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                rpc::rpc_sync(test::after(group), later_error);
              }).find("too late"),
              std::string::npos);
  });
}

TEST(AsyncExecution, MayDependOnAThirdWorker) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int third = (group.rank() + 2) % group.size();
        for (int i = 0; i < 20; ++i) {
          EXPECT_EQ(rpc::rpc_sync(test::after(group), by_way_of, third, i), i + 101);
        }
      },
      {.workers = 1});
}

TEST(AsyncExecution, OfABrokenPromiseIsAnErrorAndShutdownCompletes) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const auto start = Clock::now();
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                rpc::rpc_sync(test::after(group), forgets);
              }).find("the Promise of this Future was destroyed without a value"),
              std::string::npos);
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                rpc::rpc_sync(test::after(group), converts);
              }).find("not a number"),
              std::string::npos);
    EXPECT_LT(seconds_since(start), 30);
  });
}

}  // namespace
}  // namespace lockstep
