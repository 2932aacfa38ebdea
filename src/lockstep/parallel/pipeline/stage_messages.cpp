#include <lockstep/parallel/pipeline/stage_messages.hpp>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>

namespace lockstep {
namespace {

constexpr std::size_t receives_ahead = 2;
constexpr std::int64_t header_numbers = 2 + Shape::max_dims;  // dtype, dims, extents

}  // namespace

StageMessages::Format StageMessages::format_of(const Tensor& t,
                                               const Microbatch& microbatch) const {
  const auto refuse = [&](const std::string& why) {
    throw ShapeError("pipeline, " + std::string(what_) + " " + std::to_string(microbatch.number) +
                     ": " + describe(t) + " for " + std::to_string(microbatch.rows()) +
                     " rows of the batch " + why);
  };
  if (t.layout() != Layout::plain)
    refuse("is in channel blocks; the stage must return a plain one.");
  const std::int64_t rows = microbatch.rows();
  if (t.dims() == 0 || (rows == 0 ? t.size(0) : t.size(0) % rows) != 0)
    refuse("cannot be sent: the leading extent must be a multiple of the rows.");
  // Without rows the extent for each is not known.
  const std::int64_t leading = rows > 0 ? t.size(0) / rows : format_ ? format_->row[0] : 1;
  Format format{t.dtype(), t.shape().with_leading(leading)};
  if (format_ && *format_ != format) {
    refuse("differs from the shape or dtype of the messages before, " +
           std::string(name_of(format_->dtype)) + to_string(format_->row) +
           " for each row. Call Pipeline::forget_shapes() on all ranks before a step with another "
           "shape of samples.");
  }
  return format;
}

void StageMessages::send(const Tensor& t, const Microbatch& microbatch) {
  const Format format = format_of(t, microbatch);
  const CallLabel label(what_, microbatch.number);
  if (!std::exchange(format_, format).has_value() && tells_shape_) tell_shape(microbatch.number);
  std::erase_if(sends_, [](Message& message) { return message.work.test(); });
  sends_.push_back({microbatch.number, {}, group_.isend(t, peer_, tag_)});
}

void StageMessages::finish() {
  for (Message& message : sends_) wait(message);
  sends_.clear();
}

void StageMessages::tell_shape(int microbatch) {
  std::vector<std::int64_t> header(header_numbers, 0);
  header[0] = static_cast<std::int64_t>(format_->dtype);
  header[1] = format_->row.dims();
  std::ranges::copy(format_->row, header.begin() + 2);
  sends_.push_back({microbatch, {}, group_.isend(Tensor::from(header), peer_, tag_)});
}

void StageMessages::hear_shape() {
  const Tensor told = Tensor::empty({header_numbers}, DType::i64);
  Message message{order_.front().number, told, group_.irecv(told, peer_, tag_)};
  wait(message);
  const auto header = told.to_vector<std::int64_t>();
  const auto dims = static_cast<std::size_t>(header[1]);
  format_ = Format{static_cast<DType>(header[0]), Shape(std::span(header).subspan(2, dims))};
}

void StageMessages::begin(std::vector<Microbatch> order, Device device) {
  order_ = std::move(order);
  device_ = device;
  posted_ = 0;
  post_ahead();
}

void StageMessages::learn(const Tensor& t, const Microbatch& microbatch) {
  format_ = format_of(t, microbatch);
  post_ahead();
}

void StageMessages::post() {
  const Microbatch& microbatch = order_[posted_++];
  const CallLabel label(what_, microbatch.number);
  const Tensor t = Tensor::empty(format_->of(microbatch), format_->dtype, device_);
  pending_.push_back({microbatch.number, t, group_.irecv(t, peer_, tag_)});
}

void StageMessages::post_ahead() {
  while (format_ && posted_ < order_.size() && pending_.size() < receives_ahead) post();
}

void StageMessages::wait(Message& message) {
  const auto sentence = [&] {
    return std::string(" The message is \"") + what_ + " " + std::to_string(message.microbatch) +
           "\" of the pipeline.";
  };
  try {
    const auto begin = Clock::now();
    message.work.wait();
    waited_s_ += seconds_since(begin);
  } catch (const TimeoutError& error) {
    throw TimeoutError(error.what() + sentence());
  } catch (const CommError& error) {
    throw CommError(error.what() + sentence());
  }
}

Tensor StageMessages::receive(const Microbatch& microbatch) {
  const CallLabel label(what_, microbatch.number);
  if (!format_ && tells_shape_) hear_shape();
  const auto is_it = [&](const Message& one) { return one.microbatch == microbatch.number; };
  auto place = std::ranges::find_if(pending_, is_it);
  while (place == pending_.end()) {  // a schedule that takes them in another order
    post();
    place = std::prev(pending_.end(), is_it(pending_.back()) ? 1 : 0);
  }
  wait(*place);
  Tensor t = place->tensor;
  pending_.erase(place);
  post_ahead();
  return t;
}

}  // namespace lockstep
