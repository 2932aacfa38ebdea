#include <lockstep/base/hash.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/save/deflate.hpp>
#include <lockstep/checkpoint/save/saving.hpp>

namespace lockstep {
namespace {

/// The slabs that are chunks.
void deflate_own(StagedSave& save) {
  const TraceScope scope("checkpoint", "compress");
  for (auto& [dataset, slab, data] : save.mine.slabs) {
    Chunk& chunk = slab.chunk;
    if (chunk.full == 0) continue;
    const auto element =
        static_cast<std::int64_t>(size_of(save.plan.datasets[dataset].entry.dtype));
    save.compressed.push_back(shuffle_and_deflate(data, slab.bytes, chunk.full, element));
    const std::vector<std::byte>& bytes = save.compressed.back();
    data = bytes.data();
    chunk.bytes = static_cast<std::int64_t>(bytes.size());
    chunk.hash = hash64(bytes.data(), bytes.size());
  }
}

std::vector<Chunk> chunks_of(const StagedSlabs& mine) {
  std::vector<Chunk> chunks;
  for (const auto& [dataset, slab, data] : mine.slabs) {
    if (slab.chunk.full > 0) chunks.push_back(slab.chunk);
  }
  return chunks;
}

}  // namespace

void compress_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait) {
  if (save.plan.compression == Compression::none) return;
  AgreeOptions options = refuse_with(not_written(save.plan.path));
  options.wait = wait;
  const auto deflate = [&] {
    deflate_own(save);
    return chunks_of(save.mine);
  };
  const auto all = agree(group, explained(save.plan.path, save.plan.bytes, deflate), options);
  std::vector<std::size_t> used(all.size(), 0);
  for (auto& planned : save.plan.datasets) {
    if (!planned.entry.is_compressed()) continue;
    for (Slab& slab : planned.entry.slabs) {
      const auto owner = static_cast<std::size_t>(slab.owner);
      slab.chunk = all[owner].at(used[owner]++);
    }
  }
}

}  // namespace lockstep
