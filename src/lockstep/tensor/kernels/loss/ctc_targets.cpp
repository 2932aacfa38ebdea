#include <limits>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

namespace lockstep {
namespace {

std::string wrong_frames(const IndexCheck& check, std::int64_t n, std::int64_t frames) {
  return "ctc_loss: input length " + std::to_string(frames) + " of sample " + std::to_string(n) +
         " must be between 0 and " + std::to_string(check.count - 1);
}

std::string wrong_length(const IndexCheck& check, std::int64_t n, std::int64_t length) {
  return "ctc_loss: target length " + std::to_string(length) + " of sample " + std::to_string(n) +
         " must be between 0 and the " + std::to_string(check.count - 1) + " labels given";
}

std::string wrong_end(const IndexCheck& check, std::int64_t n, std::int64_t end) {
  return "ctc_loss: the target lengths up to sample " + std::to_string(n) + " add up to " +
         std::to_string(end) + ", which must be at most the " + std::to_string(check.count - 1) +
         " labels given";
}

/// Number i of all labels. A wrong one has the code 2 label + 1, others 0.
std::string wrong_label(const IndexCheck& check, std::int64_t i, std::int64_t code) {
  const Shape& targets = check.indices;
  const std::string place = targets.dims() == 2
                                ? " of sample " + std::to_string(i / targets[1])
                                : ", number " + std::to_string(i) + " in the row of all labels,";
  return "ctc_loss: label " + std::to_string(code >> 1) + place +
         " must be a class other than the blank";
}

/// Where the samples' labels are. `room` is for one sample if the targets are padded, else for all.
struct CtcRoom {
  std::int64_t room;
  bool padded;
};

/// Of valid lengths. ends[n] is the place behind sample n's labels, which may be outside. Then the
/// sample has none.
template <class Space>
void place_kernel(const Space& space, const CtcRoom& all, const Tensor& frames,
                  const Tensor& lengths, const CtcTargets& targets, const Tensor& ends) {
  const auto given = flat_view<Space, const std::int64_t>(lengths),
             given_frames = flat_view<Space, const std::int64_t>(frames);
  const auto first = flat_view<Space, std::int64_t>(targets.first),
             count = flat_view<Space, std::int64_t>(targets.lengths),
             of_x = flat_view<Space, std::int64_t>(targets.frames),
             end = flat_view<Space, std::int64_t>(ends);
  for_each(
      "lockstep::ctc_place", space, ends.numel(), KOKKOS_LAMBDA(std::int64_t n) {
        std::int64_t begin = all.padded ? n * all.room : 0;
        for (std::int64_t before = 0; before < n && !all.padded; ++before) begin += given(before);
        end(n) = begin + given(n);
        const bool fits = all.padded || end(n) <= all.room;
        first(n) = fits || begin < all.room ? begin : all.room;
        count(n) = fits ? given(n) : 0;
        of_x(n) = given_frames(n);
      });
}

template <class Space>
void check_labels_kernel(const Space& space, const CtcRoom& all, std::int64_t classes,
                         const Tensor& labels, const CtcTargets& targets, const Tensor& ends,
                         const Tensor& codes) {
  const auto in = flat_view<Space, const std::int64_t>(labels),
             count = flat_view<Space, const std::int64_t>(targets.lengths),
             end = flat_view<Space, const std::int64_t>(ends);
  const auto out = flat_view<Space, std::int64_t>(targets.labels),
             code = flat_view<Space, std::int64_t>(codes);
  const std::int64_t samples = ends.numel(), blank = targets.blank;
  const std::int64_t rows = all.padded ? samples : 1;
  for_each_row(
      "lockstep::ctc_check_labels", space, rows, all.room,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t of_one_row = samples == 0 ? 0 : end(samples - 1);
        const std::int64_t used = all.padded ? count(r) : of_one_row;
        lanes.each([&](std::int64_t c) {
          const std::int64_t i = r * all.room + c, label = in(i);
          const bool is_right = label >= 0 && label < classes && label != blank;
          const auto wrong = static_cast<std::int64_t>(2U * static_cast<std::uint64_t>(label) + 1U);
          out(i) = c < used && is_right ? label : blank;
          code(i) = c < used && !is_right ? wrong : 0;
        });
      });
}

void expect_shapes(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths) {
  const bool padded = targets.dims() == 2;
  if (x.dims() == 3 && (targets.dims() == 1 || (padded && targets.size(0) == x.size(1))) &&
      input_lengths.shape() == Shape{x.size(1)} && target_lengths.shape() == Shape{x.size(1)}) {
    return;
  }
  throw ShapeError("ctc_loss of x " + describe(x) + ", targets " + describe(targets) +
                   ", input_lengths " + describe(input_lengths) + " and target_lengths " +
                   describe(target_lengths) +
                   ": they are [T, N, C], [N, S] or all labels in one row, [N], [N]");
}

}  // namespace

CtcTargets ctc_targets(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, std::int64_t blank) {
  expect_shapes(x, targets, input_lengths, target_lengths);
  const std::int64_t frames = x.size(0), samples = x.size(1), classes = x.size(2);
  if (blank < 0 || blank >= classes) {
    throw InputError("ctc_loss: blank = " + std::to_string(blank) + " is not one of the " +
                     std::to_string(classes) + " classes");
  }
  const Device device = x.device();
  const auto here = [&](const Tensor& t) { return t.to(device).to(DType::i64); };
  const auto numbers = [&](std::int64_t n) { return Tensor::empty({n}, DType::i64, device); };
  const CtcRoom room{targets.size(-1), targets.dims() == 2};
  const Tensor of_x = right_indices({.count = frames + 1, .sentence = wrong_frames},
                                    here(input_lengths), 0),
               lengths = right_indices({.count = room.room + 1, .sentence = wrong_length},
                                       here(target_lengths), 0);
  CtcTargets result{numbers(targets.numel()), numbers(samples), numbers(samples), numbers(samples),
                    blank};
  const Tensor ends = numbers(samples), codes = numbers(targets.numel()), labels = here(targets);
  dispatch(current_stream(device),
           [&](const auto& space) { place_kernel(space, room, of_x, lengths, result, ends); });
  if (!room.padded) {
    static_cast<void>(right_indices({.count = room.room + 1, .sentence = wrong_end}, ends, 0));
  }
  dispatch(current_stream(device), [&](const auto& space) {
    check_labels_kernel(space, room, classes, labels, result, ends, codes);
  });
  static_cast<void>(
      right_indices({.count = 1, .sentence = wrong_label, .indices = targets.shape()}, codes, 0));
  return result;
}

}  // namespace lockstep
