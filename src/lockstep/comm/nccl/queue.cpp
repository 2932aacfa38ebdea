#include <lockstep/comm/nccl/queue.hpp>

#include <lockstep/comm/nccl/enqueue.hpp>
#include <lockstep/comm/nccl/in_flight.hpp>

namespace lockstep {
void NcclQueue::begin_batch() noexcept { open_batch_ = ++batches_; }

void NcclQueue::Line::add(NcclInFlight& work) noexcept {
  work.after_ = nullptr;
  (last ? last->after_ : first) = &work;
  last = &work;
}

void NcclQueue::Line::remove_first() noexcept {
  first = first->after_;
  if (!first) last = nullptr;
}

void NcclQueue::add(NcclInFlight& work) noexcept {
  work.batch_ = open_batch_ != 0 ? open_batch_ : ++batches_;
  waiting_.add(work);
}

void NcclQueue::advance() {
  while (waiting_.first) {
    if (!given_) {
      NcclInFlight* const last = ready_batch();
      if (!last) return;
      give_to_nccl(last);
    }
    if (!communicator_.is_settled()) return;
    release_batch();
  }
}

NcclInFlight* NcclQueue::ready_batch() {
  if (waiting_.first->batch_ == open_batch_) return nullptr;
  NcclInFlight* last = nullptr;
  const NcclInFlight* first_with_place = nullptr;  // the others of the batch follow it
  const std::uint64_t batch = waiting_.first->batch_;
  for (NcclInFlight* work = waiting_.first; work && work->batch_ == batch; work = work->after_) {
    if (!work->may_go()) return nullptr;
    if (!first_with_place && work->place_.is_entered()) first_with_place = work;
    last = work;
  }
  return !first_with_place || first_with_place->place_.is_first() ? last : nullptr;
}

const Stream& NcclQueue::stream_of(Lane lane) const {
  return lane == messages ? communicator_.messages() : communicator_.collectives();
}

bool NcclQueue::is_oldest_on_stream(const NcclInFlight& work) const noexcept {
  return on_stream_[work.lane_].first == &work;
}

void NcclQueue::remove_oldest_on_stream(const NcclInFlight& work) noexcept {
  on_stream_[work.lane_].remove_first();
}

void NcclQueue::give_to_nccl(NcclInFlight* last) {
  Lane lane = messages;
  for (NcclInFlight* work = waiting_.first; work != last->after_; work = work->after_) {
    if (!work->operation().is_message()) lane = collectives;
  }
  const Stream& stream = stream_of(lane);
  communicator_.expect_accepted(communicator_.api().group_start(), "ncclGroupStart");
  try {
    for (NcclInFlight* work = waiting_.first; work != last->after_; work = work->after_) {
      work->lane_ = lane;
      work->input_ready_.make_wait(stream);
      enqueue(communicator_, work->operation(), stream, rank_, size_);
    }
  } catch (...) {  // no NCCL group may stay open
    static_cast<void>(communicator_.api().group_end());
    throw;
  }
  given_ = last;
  communicator_.expect_accepted(communicator_.api().group_end(), "ncclGroupEnd");
}

/// NCCL's kernels are on the stream: record events behind them.
void NcclQueue::release_batch() {
  const Stream& stream = stream_of(waiting_.first->lane_);
  for (;;) {
    NcclInFlight& work = *waiting_.first;
    enqueue_mean(work.operation(), stream, size_);
    work.done_.record(communicator_.events(), stream);
    const bool was_last = &work == given_;
    waiting_.remove_first();
    on_stream_[work.lane_].add(work);
    work.on_stream_ = true;
    work.launched_at_ = Clock::now();
    work.place_.leave();
    if (was_last) break;
  }
  given_ = nullptr;
}

void NcclQueue::clear() noexcept {
  for (NcclInFlight* work = waiting_.first; work; work = work->after_) work->place_.leave();
  waiting_ = {};
  on_stream_ = {};
  given_ = nullptr;
}

}  // namespace lockstep
