// ddp_loop.h5: PyTorch's own loop, in which loss.backward() alone sums gradients over the ranks,
// and its results on two ranks for other uses.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"
#include "two_ranks.hpp"

namespace lockstep {
namespace {

using test::max_difference;

constexpr std::array net_names{"W1", "b1", "W2", "b2", "skip"};
constexpr int file_ranks = 2;

/// The file, read once: HDF5 must not be called from several threads.
struct LoopGolden {
  LoopGolden() {
    const test::GoldenFile file("ddp_loop.h5");
    for (const std::string name : net_names)
      parameters[name] = file.tensor("param/" + name).to(test::asked_for_device());
    for (int rank = 0; rank < file_ranks; ++rank) {
      for (int k = 0; k < 3; ++k) {
        const std::string at = "data/rank" + std::to_string(rank) + "/";
        x.push_back(file.tensor(at + "x" + std::to_string(k)).to(test::asked_for_device()));
        t.push_back(file.tensor(at + "t" + std::to_string(k)).to(test::asked_for_device()));
      }
    }
    for (const std::string& name : file.groups("case")) {
      const std::string at = "case/" + name;
      for (std::size_t stage = 0; stage < file.groups(at).size(); ++stage) {
        for (int rank = 0; rank < file_ranks; ++rank) {
          const std::string path =
              at + "/stage" + std::to_string(stage) + "/rank" + std::to_string(rank);
          std::map<std::string, Tensor> gradients;
          for (const std::string& set : file.datasets(path)) {
            gradients[set.substr(0, set.size() - 4)] = file.tensor(path + "/" + set);  // _f64
          }
          cases[name].push_back(std::move(gradients));
        }
      }
    }
    unread = file.unread("");
  }
  std::map<std::string, Tensor> parameters;
  std::vector<Tensor> x, t;  ///< of rank 0, then of rank 1
  /// Of each stage rank 0's and rank 1's gradients, by parameter.
  std::map<std::string, std::vector<std::map<std::string, Tensor>>> cases;
  std::vector<std::string> unread;
};

/// W2 tanh(W1 x + b1) + b2, and, if asked, + skip x.
struct LoopNet : nn::Module {
  explicit LoopNet(const LoopGolden& golden) {
    for (const std::string name : net_names) {
      parts.push_back(register_parameter(name, golden.parameters.at(name).clone()));
    }
  }
  Variable forward(const Variable& x) override {
    const Variable y = linear(test::tanh(linear(x, parts[0], parts[1])), parts[2], parts[3]);
    return skips ? y + linear(x, parts[4], Variable()) : y;
  }
  std::vector<Variable> parts;
  bool skips = false;
};

/// One rank of a case: compares with the next stage of the file at every point recorded by the
/// script.
class LoopRun {
 public:
  LoopRun(const LoopGolden& golden, const std::string& name,
          const std::shared_ptr<ProcessGroup>& group, const DdpOptions& options)
      : golden_(golden),
        name_(name),
        rank_(group->rank()),
        net(std::make_shared<LoopNet>(golden)),
        ddp(net, group, options) {}
  ~LoopRun() { EXPECT_EQ(2 * stage_, golden_.cases.at(name_).size()) << name_; }

  [[nodiscard]] Variable output(int k) {
    return ddp.forward(Variable(golden_.x[static_cast<std::size_t>(3 * rank_ + k)]));
  }
  [[nodiscard]] Tensor target(int k) const {
    return golden_.t[static_cast<std::size_t>(3 * rank_ + k)];
  }
  [[nodiscard]] Variable loss(int k) { return mse_loss(output(k), target(k)); }

  void note() {
    const auto& expected = golden_.cases.at(name_).at(2 * stage_ + static_cast<std::size_t>(rank_));
    for (std::size_t p = 0; p < net_names.size(); ++p) {
      const auto place = expected.find(net_names[p]);
      ASSERT_EQ(net->parts[p].grad().defined(), place != expected.end()) << net_names[p] << name_;
      if (place == expected.end()) continue;
      EXPECT_LE(max_difference(net->parts[p].grad(), place->second), 1e-14)
          << net_names[p] << " on rank " << rank_ << " in stage " << stage_ << " of " << name_;
    }
    ++stage_;
  }

 private:
  const LoopGolden& golden_;
  std::string name_;
  int rank_;
  std::size_t stage_ = 0;

 public:
  std::shared_ptr<LoopNet> net;
  DistributedDataParallel ddp;
};

/// As in make_ddp_loop.py, line by line.
const std::map<std::string, std::function<void(LoopRun&, int)>> loop_cases{
    {"plain",
     [](LoopRun& run, int) {
       optim::SGD sgd(run.net->named_parameters(), {.lr = 0.1});
       for (int k = 0; k < 3; ++k) {
         sgd.zero_grad();
         run.loss(k).backward();
         run.note();
         sgd.step();
       }
     }},
    {"accumulated",
     [](LoopRun& run, int) {
       for (int k = 0; k < 3; ++k) {
         run.loss(k).backward();
         run.note();
       }
     }},
    {"no_sync",
     [](LoopRun& run, int) {
       for (int k = 0; k < 2; ++k) {
         {
           const auto local = run.ddp.no_sync();
           run.loss(k).backward();
         }
         run.note();
       }
       run.loss(2).backward();
       run.note();
     }},
    {"no_sync_after_a_sum",
     [](LoopRun& run, int) {
       run.loss(0).backward();
       run.note();
       {
         const auto local = run.ddp.no_sync();
         run.loss(1).backward();
       }
       run.note();
       run.loss(2).backward();
       run.note();
     }},
    {"two_losses",
     [](LoopRun& run, int) {
       const Variable y = run.output(0);
       mse_loss(y, run.target(0)).backward(1.0, /*retain_graph=*/true);
       run.note();
       mean(y * y).backward();
       run.note();
     }},
    {"two_forwards_one_backward",
     [](LoopRun& run, int) {
       (run.loss(0) + run.loss(1)).backward();
       run.note();
     }},
    {"two_forwards_two_backwards",
     [](LoopRun& run, int) {
       const Variable first = run.loss(0), second = run.loss(1);
       first.backward();
       run.note();
       second.backward();
       run.note();
       run.loss(2).backward();
       run.note();
     }},
    {"forward_within_no_sync",
     [](LoopRun& run, int) {
       Variable loss;
       {
         const auto local = run.ddp.no_sync();
         loss = run.loss(0);
       }
       loss.backward();
       run.note();
       run.loss(1).backward();
       run.note();
     }},
    {"graphs_that_differ",
     [](LoopRun& run, int rank) {
       for (int k = 0; k < 2; ++k) {
         run.net->skips = rank == (k + 1) % 2;
         run.loss(k).backward();
         run.note();
       }
     }},
};

class DdpLoopGolden : public testing::TestWithParam<int> {};

TEST_P(DdpLoopGolden, LeavesTheGradientsThatPyTorchLeaves) {
  const LoopGolden golden;
  EXPECT_EQ(golden.unread, std::vector<std::string>{});
  ASSERT_EQ(golden.cases.size(), loop_cases.size());
  test::on_two_ranks(GetParam(), [&](const auto& group) {
    for (const auto& [name, run_case] : loop_cases) {
      for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
        LoopRun run(golden, name, group, {.buckets = buckets});
        run_case(run, group->rank());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpLoopGolden, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
