#include <lockstep/tensor/kernels/gather.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

// The elements of a row; a source without rows is legal only for an empty batch.
std::int64_t row_elements(const Tensor& t) {
  return t.dims() == 0 || t.size(0) == 0 ? 0 : t.numel() / t.size(0);
}

void expect_rows(const char* operation, const Tensor& source, const Tensor& indices,
                 const Tensor& out) {
  const bool fits = indices.dims() == 1 && out.dims() >= 1 && out.size(0) == indices.size(0) &&
                    (out.numel() == 0 || row_elements(source) == row_elements(out));
  if (!fits) {
    throw ShapeError(std::string(operation) + ": rows of " + describe(source) + " picked by " +
                     describe(indices) + " do not give " + describe(out));
  }
}

template <class Space>
void gather_normalise_kernel(const Space& space, const Tensor& images, const Tensor& indices,
                             float mean, float std, const Tensor& y) {
  const std::int64_t rows = indices.size(0), width = row_elements(y);
  const auto in = view<Space, const std::uint8_t, 2>(images.reshape({images.size(0), width}));
  const auto index = view<Space, const std::int64_t, 1>(indices);
  const auto out = view<Space, float, 2>(y.reshape({rows, width}));
  for_each_row(
      "lockstep::gather_normalise", space, rows, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t sample = index(r);
        lanes.each([&](std::int64_t c) {
          out(r, c) = (static_cast<float>(in(sample, c)) / 255.0F - mean) / std;
        });
      });
}

template <class Space>
void gather_labels_kernel(const Space& space, const Tensor& labels, const Tensor& indices,
                          const Tensor& y) {
  const auto in = view<Space, const std::uint8_t, 1>(labels);
  const auto index = view<Space, const std::int64_t, 1>(indices);
  const auto out = view<Space, std::int64_t, 1>(y);
  for_each(
      "lockstep::gather_labels", space, indices.size(0),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = static_cast<std::int64_t>(in(index(i))); });
}

}  // namespace

void gather_normalise(const Tensor& images, const Tensor& indices, float mean, float std,
                      const Tensor& out) {
  expect_rows("gather_normalise", images, indices, out);
  if (out.numel() == 0) return;
  dispatch(current_stream(images.device()), [&](const auto& space) {
    gather_normalise_kernel(space, images, indices, mean, std, out);
  });
}

void gather_labels(const Tensor& labels, const Tensor& indices, const Tensor& out) {
  expect_rows("gather_labels", labels, indices, out);
  if (out.numel() == 0) return;
  dispatch(current_stream(labels.device()),
           [&](const auto& space) { gather_labels_kernel(space, labels, indices, out); });
}

}  // namespace lockstep
