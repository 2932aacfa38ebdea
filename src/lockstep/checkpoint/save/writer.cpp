#include <lockstep/checkpoint/save/writer.hpp>

#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/save/saving.hpp>

namespace lockstep {

SaveReport CheckpointWriter::save(ProcessGroup& group, const std::filesystem::path& path,
                                  const CheckpointContents& contents, NotFinite not_finite,
                                  MayWrite may_write) {
  const auto start = Clock::now();
  const WaitFor until_deadline = [](Work& work) { work.wait(); };
  SavePlan plan = plan_save(group, path, contents, compression_);
  plan.may_write = std::move(may_write);
  StagedSave save = stage_save(group, std::move(plan), not_finite, nullptr);
  compress_save(group, save, until_deadline);
  WrittenSave written = write_save(group, save, until_deadline);
  const std::int64_t bytes = publish_save(group, save, written, until_deadline);
  const double seconds = seconds_since(start);
  return {bytes, seconds, seconds, save.not_finite};
}

}  // namespace lockstep
