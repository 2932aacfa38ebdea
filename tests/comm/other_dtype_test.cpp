// Receives that OtherDtype cancels, step by step: in a group the steps depend on timing.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>
#include <lockstep/comm/mpi/other_dtype.hpp>

namespace lockstep {
namespace {

/// Receives of this rank from itself, under tag 5.
class OtherDtypeOfOneTag : public testing::Test {
 protected:
  static constexpr std::int64_t max_count = 1 << 20;

  void TearDown() override {
    for (const MPI_Request request : sending_) patient_(request);
    EXPECT_EQ(ranks_.leave(), MPI_SUCCESS);
  }

  [[nodiscard]] Operation receive_of(DType dtype) const {
    Operation operation;
    operation.kind = Operation::Kind::receive;
    operation.root = ranks_.rank();
    operation.tag = 5;
    operation.output = Tensor::zeros({1}, dtype);
    return operation;
  }
  void post(MpiReceive& receive, const Operation& operation) const {
    receive.comm = ranks_.messages();
    receive.source = ranks_.rank();
    receive.tag = tag(operation.output.dtype());
    receive.target = address_of(operation.output);
    receive.bytes = static_cast<std::int64_t>(operation.output.bytes());
    receive.post(max_count);
  }
  void send(const Tensor& t) {
    MPI_Request request = MPI_REQUEST_NULL;
    sent_.push_back(t);
    ASSERT_EQ(MPI_Isend(t.data(), static_cast<int>(t.bytes()), MPI_BYTE, ranks_.rank(),
                        tag(t.dtype()), ranks_.messages(), &request),
              MPI_SUCCESS);
    sending_.push_back(request);  // some MPIs wait for the receive
  }
  [[nodiscard]] int tag(DType dtype) const { return ranks_.tag_of_message(5, dtype); }
  void wait_for(MpiReceive& receive) const {
    patient_.until([&] {
      receive.test();
      return receive.length >= 0 || receive.cancelled;
    });
  }

  MpiWait patient_{0, "this rank", "the test", std::chrono::seconds(60)};
  MpiRanks ranks_ = MpiRanks::of(MPI_COMM_WORLD, patient_);
  MpiPlace place_{.ranks = &ranks_, .max_count = max_count, .probes = false};
  PendingReceives pending_;
  std::vector<Tensor> sent_;
  std::vector<MPI_Request> sending_;
};

TEST_F(OtherDtypeOfOneTag, NeverPutsAReceiveBehindLaterOnes) {
  const Operation first = receive_of(DType::f32), second = receive_of(DType::f32);
  MpiReceive receive, later;
  post(receive, first);
  post(later, second);
  send(Tensor::full({1}, 2.5, DType::f64));
  OtherDtype other;
  patient_.until([&] {
    other.look(receive, first, place_, pending_);
    return receive.doubted;
  });
  wait_for(receive);
  ASSERT_TRUE(OtherDtype::took_back(receive));
  double taken = 0;  // by a receive that is started only now
  MPI_Recv(&taken, 8, MPI_BYTE, ranks_.rank(), tag(DType::f64), ranks_.messages(),
           MPI_STATUS_IGNORE);
  EXPECT_EQ(taken, 2.5);
  other.take(receive, first, place_, pending_);
  EXPECT_TRUE(other.has_come());
  EXPECT_FALSE(OtherDtype::took_back(receive));
  EXPECT_EQ(receive.request, MPI_REQUEST_NULL);  // it is not posted again
  const std::string finding = other.finding(first, receive, ranks_);
  EXPECT_NE(finding.find("rank " + std::to_string(ranks_.rank()) + " sent a message of f64"),
            std::string::npos)
      << finding;

  send(Tensor::full({1}, 3.0));
  wait_for(later);
  EXPECT_EQ(second.output.item(), 3.0);
  EXPECT_EQ(first.output.item(), 0.0);
}

}  // namespace
}  // namespace lockstep
