#include <lockstep/tensor/math/cublas_product.hpp>
#include <lockstep/tensor/math/cudnn_attention.hpp>
#include <lockstep/tensor/math/cudnn_convolution.hpp>

namespace lockstep::math {
namespace {

class CudaMath final : public DeviceMath {
 public:
  [[nodiscard]] std::unique_ptr<ProductPlan> plan(const char* name,
                                                  const ColumnMajorProduct& product,
                                                  Device device) override {
    return cublas_plan(name, product, device);
  }
  [[nodiscard]] std::unique_ptr<ConvolutionPlan> plan(const char* name,
                                                      const Convolution& convolution,
                                                      Device device) override {
    return cudnn_plan(name, convolution, device);
  }
  [[nodiscard]] std::unique_ptr<FusedAttentionPlan> plan(const char* name,
                                                         const Attention& attention,
                                                         Device device) override {
    return cudnn_plan(name, attention, device);
  }
};

}  // namespace

DeviceMath* cuda_math() noexcept {
  static CudaMath math;
  return &math;
}

}  // namespace lockstep::math
