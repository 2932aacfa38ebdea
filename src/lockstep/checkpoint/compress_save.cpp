#include <cstring>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/deflate.hpp>
#include <lockstep/checkpoint/saving.hpp>

namespace lockstep {
namespace {

/// Those of the slabs that are chunks.
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

/// What a rank tells of its chunks.
std::string to_bytes(const StagedSlabs& mine) {
  std::string bytes;
  for (const auto& [dataset, slab, data] : mine.slabs) {
    if (slab.chunk.full > 0)
      bytes.append(reinterpret_cast<const char*>(&slab.chunk), sizeof slab.chunk);
  }
  return bytes;
}

}  // namespace

void compress_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait) {
  if (save.plan.compression == Compression::none) return;
  const std::string error = failure_of(save.plan.path, save.plan.bytes, [&] { deflate_own(save); });
  const auto all = agree(group, not_written(save.plan), error, to_bytes(save.mine), wait);
  std::vector<std::size_t> used(all.size(), 0);
  for (auto& planned : save.plan.datasets) {
    if (!planned.entry.is_compressed()) continue;
    for (Slab& slab : planned.entry.slabs) {
      const auto owner = static_cast<std::size_t>(slab.owner);
      std::memcpy(&slab.chunk, all[owner].data() + used[owner], sizeof slab.chunk);
      used[owner] += sizeof slab.chunk;
    }
  }
}

}  // namespace lockstep
