#include <lockstep/train/task/evaluation.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

double combined(double a, double b, ReduceOp op) {
  if (op == ReduceOp::sum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::nan("");  // std::max would lose a NaN
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

}  // namespace

Evaluator::Evaluator(RankGroups ranks, const Task& task, std::shared_ptr<const Dataset> data,
                     std::int64_t batch_size, Device device)
    : ranks_(std::move(ranks)),
      task_(task),
      data_(expect_given("Evaluator", "the data set", std::move(data))),
      batches_(data_->size(), batch_size, ranks_.batch->size()),
      device_(device),
      loader_(std::make_unique<Loader>(
          data_, std::make_unique<EvalBatches>(batches_, ranks_.batch->rank()),
          task.loading().prefetch, BatchTransforms{}, device)) {}

Evaluator::~Evaluator() = default;

Evaluation Evaluator::operator()(nn::Module& model) {
  return (*this)(
             model, [&](const Batch& batch) { return task_.forward(model, batch); }, false,
             [] { return true; })
      .value();
}

std::optional<Evaluation> Evaluator::operator()(nn::Module& model, const Forward& forward,
                                                bool all_go_forward, const GoesOn& goes_on) {
  const TraceScope scope("evaluation", "evaluate");
  const NoGradGuard no_grad;
  const nn::ModeGuard evaluating(model, false);
  // Loss and figures of each batch have a row of their own, so the sum over ranks adds only zeros,
  // and the batches are combined in one order.
  const std::vector<Metric> metrics = task_.metrics(*data_);
  const std::size_t width = 1 + metrics.size();
  std::vector<double> rows(static_cast<std::size_t>(batches_.batches()) * width);
  loader_->start_epoch(0);
  std::optional<Failure> failure;  // of this rank, which goes on beside the others, without samples
  for (std::int64_t k = 0; k < batches_.batches_of(0); ++k) {
    if (!goes_on()) return std::nullopt;
    std::optional<Batch> batch;
    std::span<double> row;
    if (!failure && loader_->has_next()) {
      const auto number =
          static_cast<std::size_t>(batches_.batch_of(ranks_.batch->rank(), loader_->next_step()));
      row = std::span(rows).subspan(number * width, width);
      failure = failure_of([&] { batch = ranks_.own_slice(loader_->next()); });
    }
    if (!batch) {
      if (all_go_forward) static_cast<void>(forward(ranks_.own_slice(Batch(*data_, 0, device_))));
      continue;
    }
    const Variable output = forward(*batch);
    if (!output.defined()) continue;
    failure = failure_of([&] {
      row[0] = task_.loss(output, *batch).data().item() * static_cast<double>(batch->size()) /
               ranks_.sequence_parts();
      task_.measure(output.data(), *batch, row.subspan(1));
    });
  }
  agree(*ranks_.all, failure);
  const Tensor all_rows = Tensor::from(rows, {std::ssize(rows)});
  ranks_.data->all_reduce(all_rows, ReduceOp::sum).wait();
  if (ranks_.stages) ranks_.stages->broadcast(all_rows, ranks_.stages->size() - 1).wait();
  rows = all_rows.to_vector<double>();
  const auto over_batches = [&](std::size_t column, ReduceOp op) {
    double total = rows[column];
    for (std::size_t at = column + width; at < rows.size(); at += width)
      total = combined(total, rows[at], op);
    return total;
  };
  Evaluation result;
  result.loss = over_batches(0, ReduceOp::sum) / static_cast<double>(data_->size());
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    result.metrics.emplace_back(metrics[m].name,
                                metrics[m].value(over_batches(1 + m, metrics[m].combine)));
  }
  return result;
}

}  // namespace lockstep::train
