#pragma once
#include <memory>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// A backward pass in two parts: first the gradient of one leaf, `input`, for which another rank
/// waits, later those of all others, the parameters. Together they give the bits of
/// Variable::backward, or of lockstep::backward, and cost as much: the first part leaves out an
/// operation's computation for its parameters, and the second one computes nothing else.
/// (Operations that compute both at once, or their forward again, do so twice: nn::Recomputed.) For
/// pipelines: Qi et al. 2023, arXiv:2401.10241. One thread at a time.
class SplitBackward {
 public:
  /// The first part. `root` gets `gradient`, or with one element, if that is undefined, `seed`;
  /// `input` needs no gradient if it is undefined or does not require one. Frees the graph except
  /// operations that have parameters. Throws as lockstep::backward does, and Error for parameters
  /// of a FullyShardedDataParallel, or of a DistributedDataParallel that waits for a pass to sum.
  SplitBackward(const Variable& root, const Tensor& gradient, double seed, const Variable& input);
  ~SplitBackward();
  SplitBackward(const SplitBackward&) = delete;
  SplitBackward& operator=(const SplitBackward&) = delete;

  /// The second part: adds to the parameters' gradients, and calls their hooks. Once; without it,
  /// they stay as they are. Throws operations' exceptions.
  void run_rest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
