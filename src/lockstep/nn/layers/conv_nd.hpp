#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/autograd/functional/conv_nd.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[N, in, L] -> [N, out, OL]; parameters weight[out, in/groups, k], bias[out].
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Extents<1>& kernel,
         const Conv1dOptions& options = {}, bool bias = true);
  Variable forward(const Variable& x) override;

 private:
  Conv1dOptions options_;
  Variable weight_, bias_;
};

/// x[N, in, D, H, W] -> [N, out, OD, OH, OW]; parameters weight[out, in/groups, kd, kh, kw],
/// bias[out].
class Conv3d : public Module {
 public:
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Extents<3>& kernel,
         const Conv3dOptions& options = {}, bool bias = true);
  Variable forward(const Variable& x) override;

 private:
  Conv3dOptions options_;
  Variable weight_, bias_;
};

/// The transpose of a convolution of `dims` spatial dimensions: parameters
/// weight[in, out/groups, k ...], bias[out].
template <std::size_t dims>
class ConvTranspose : public Module {
 public:
  ConvTranspose(std::int64_t in_channels, std::int64_t out_channels, const Extents<dims>& kernel,
                const ConvTransposeOptions<dims>& options = {}, bool bias = true);
  Variable forward(const Variable& x) override;

 private:
  ConvTransposeOptions<dims> options_;
  Variable weight_, bias_;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;
extern template class ConvTranspose<3>;

}  // namespace lockstep::nn
