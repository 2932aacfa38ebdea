#include <lockstep/checkpoint/writer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/layout.hpp>
#include <lockstep/checkpoint/metadata.hpp>
#include <lockstep/checkpoint/plan.hpp>
#include <lockstep/checkpoint/slab_summary.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

template <class T>
PlannedDataset small_dataset(std::string path, const std::vector<T>& elements, const Shape& shape) {
  PlannedDataset planned;
  planned.entry.path = std::move(path);
  planned.entry.dtype = dtype_of<T>;
  planned.entry.shape = shape;
  planned.entry.slabs = cut_slabs(0, planned.entry.bytes());
  planned.local = Tensor::from(elements, shape);
  return planned;
}

/// HDF5 has no string of length 0: the empty text is one zero byte, which the reader drops.
PlannedDataset text_dataset(std::string path, const std::string& text) {
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  if (bytes.empty()) bytes.push_back(0);
  const auto count = static_cast<std::int64_t>(bytes.size());
  auto planned = small_dataset(std::move(path), bytes, Shape{count});
  planned.entry.text = true;
  return planned;
}

/// What rank 0 alone writes. The slabs' owner is 0.
std::vector<PlannedDataset> plan_rest(const ProcessGroup& group,
                                      const CheckpointContents& contents) {
  std::vector<PlannedDataset> rest;
  const auto number = [&](const std::string& name, std::int64_t value) {
    rest.push_back(small_dataset("/train/" + name, std::vector{value}, Shape{}));
  };
  const TrainState& train = contents.train;
  number("step", train.step);
  number("epoch", train.epoch);
  number("position", train.position);
  number("seed", train.seed);
  for (const auto& [name, value] : train.counts) number("counts/" + name, value);
  for (const auto& [name, value] : train.sums)
    rest.push_back(small_dataset("/train/sums/" + name, std::vector{value}, Shape{}));
  rest.push_back(text_dataset("/deck", contents.deck));
  const auto writer = describe_writer(group);
  for (const auto& [key, value] : writer) rest.push_back(text_dataset("/metadata/" + key, value));
  for (const auto& [key, value] : contents.metadata) {  // of a resumed run: the old writer's too
    if (std::ranges::find(writer, key, &Metadata::value_type::first) == writer.end())
      rest.push_back(text_dataset("/metadata/" + key, value));
  }
  for (const auto& planned : rest) check_name(planned.entry.path.substr(1));
  return rest;
}

/// Model or optimizer; a metric's total may be what it likes.
bool is_state(const DatasetEntry& entry) { return !entry.path.starts_with("/train/"); }

/// What a rank tells of the slabs it wrote.
struct WrittenSlabs {
  std::string not_finite;  ///< path of the first data set with an infinity or NaN; or empty
  std::string hashes;      ///< checksums, in order, as bytes

  [[nodiscard]] std::string to_bytes() const { return not_finite + '\n' + hashes; }
  [[nodiscard]] static WrittenSlabs from_bytes(const std::string& bytes) {
    const auto end = bytes.find('\n');
    return {bytes.substr(0, end), bytes.substr(end + 1)};
  }
};

/// Writes this rank's slabs.
WrittenSlabs write_slabs(const File& file, const std::vector<PlannedDataset>& plan, int rank) {
  WrittenSlabs written;
  for (const auto& planned : plan) {
    Tensor host;
    for (const auto& slab : planned.entry.slabs) {
      if (slab.owner != rank) continue;
      if (!host.defined()) {
        host = planned.local;
        if (host.device() != Device{}) {
          host = Tensor::empty(host.shape(), host.dtype());
          host.copy_from(planned.local);
        }
      }
      const auto* from =
          static_cast<const std::byte*>(host.data()) + (slab.begin - planned.local_begin);
      const SlabSummary summary = summarise(from, slab.bytes, planned.entry.dtype);
      written.hashes.append(reinterpret_cast<const char*>(&summary.hash), sizeof summary.hash);
      if (written.not_finite.empty() && !summary.finite && is_state(planned.entry))
        written.not_finite = planned.entry.path;
      file.write_at(planned.entry.offset + slab.begin, from, slab.bytes);
    }
  }
  return written;
}

/// Rank 0's side of a save: the file under its temporary name, from its structure to its
/// publishing.
class FileOnRankZero {
 public:
  FileOnRankZero(const fs::path& path, const std::vector<PlannedDataset>& plan) : target_(path) {
    for (const auto& planned : plan) manifest_.datasets.push_back(planned.entry);
    Hdf5Image image;
    header_ = lay_out(manifest_, image);
    const File& file = target_.file();
    file.resize(header_.file_bytes);
    Hasher hasher;
    std::vector<char> buffer;
    for (const auto& extent : structure_extents(header_, manifest_)) {
      buffer.resize(static_cast<std::size_t>(extent.bytes));
      image.read_at(extent.offset, buffer.data(), extent.bytes);
      hasher.update(buffer.data(), buffer.size());
      file.write_at(extent.offset, buffer.data(), extent.bytes);
    }
    manifest_.structure_hash = hasher.digest();
  }

  [[nodiscard]] const File& file() const { return target_.file(); }
  [[nodiscard]] std::int64_t bytes() const { return header_.file_bytes; }
  [[nodiscard]] std::int64_t offset(std::size_t dataset) const {
    return manifest_.datasets[dataset].offset;
  }

  /// `written`: what write_slabs returned on each rank. The header comes last: a file without one
  /// is no checkpoint.
  void publish(const std::vector<WrittenSlabs>& written) {
    std::vector<std::size_t> used(written.size(), 0);
    for (auto& entry : manifest_.datasets) {
      for (auto& slab : entry.slabs) {
        const auto owner = static_cast<std::size_t>(slab.owner);
        auto& at = used[owner];
        std::memcpy(&slab.hash, written[owner].hashes.data() + at, sizeof slab.hash);
        at += sizeof slab.hash;
      }
    }
    const std::string text = manifest_.to_text();
    header_.manifest_hash = hash64(text.data(), text.size());
    target_.file().write_at(header_.manifest.offset, text.data(), header_.manifest.bytes);
    const auto block = header_.to_block();
    target_.file().write_at(0, block.data(), Header::bytes);
    target_.publish();
  }

 private:
  AtomicFile target_;
  Manifest manifest_;
  Header header_;
};

/// What helps against a full disk; nothing where even asking for its free space fails.
std::string advice_on_room(const fs::path& path, std::int64_t needed_bytes) {
  try {
    return fmt::format(" ({} needed, {} free). Free space there or use another file system",
                       format_bytes(needed_bytes),
                       format_bytes(available_bytes(path.parent_path())));
  } catch (const Error&) {
    return {};
  }
}

/// Runs a rank's own part of a save and returns what went wrong in it, for agree().
std::string failure_of(const fs::path& path, std::int64_t needed_bytes,
                       const std::function<void()>& part) {
  const char* comfort = ". Earlier checkpoints are as they were.";
  try {
    part();
    return {};
  } catch (const FileError& e) {
    const bool full = e.error_number() == ENOSPC || e.error_number() == EDQUOT;
    return e.what() + (full ? advice_on_room(path, needed_bytes) : std::string()) + comfort;
  } catch (const std::exception& e) {
    return std::string(e.what()) + comfort;
  }
}

}  // namespace

SaveReport CheckpointWriter::save(ProcessGroup& group, const fs::path& path,
                                  const CheckpointContents& contents, NotFinite not_finite) {
  const auto start = Clock::now();
  const std::string what = "checkpoint " + path.string() + " was not written";
  auto plan = plan_state(group, contents.model, contents.optimizer);
  const std::size_t shared = plan.size();

  std::optional<FileOnRankZero> target;
  std::vector<std::int64_t> layout(shared + 1);  // offsets, then the size of the file
  std::int64_t needed = 0;
  for (const auto& planned : plan) needed += planned.entry.bytes();
  std::string error;
  if (group.rank() == 0) {
    error = failure_of(path, needed, [&] {
      std::ranges::move(plan_rest(group, contents), std::back_inserter(plan));
      target.emplace(path, plan);
      for (std::size_t i = 0; i < plan.size(); ++i) plan[i].entry.offset = target->offset(i);
      for (std::size_t i = 0; i < shared; ++i) layout[i] = plan[i].entry.offset;
      layout[shared] = target->bytes();
    });
  }
  const std::string laid_out(reinterpret_cast<const char*>(layout.data()),
                             layout.size() * sizeof layout[0]);
  const std::string offsets = agree(group, what, error, laid_out).front();
  std::memcpy(layout.data(), offsets.data(), offsets.size());
  needed = layout[shared];

  WrittenSlabs mine;
  error = failure_of(path, needed, [&] {
    const TraceScope scope("checkpoint", "write slabs");
    if (target) {
      mine = write_slabs(target->file(), plan, 0);
    } else {
      for (std::size_t i = 0; i < shared; ++i) plan[i].entry.offset = layout[i];
      File file = File::open_for_writing(AtomicFile::temporary_path_of(path));
      mine = write_slabs(file, plan, group.rank());
      file.sync();
      file.close();
    }
  });
  std::vector<WrittenSlabs> written;
  std::string culprit;
  for (const auto& bytes : agree(group, what, error, mine.to_bytes())) {
    written.push_back(WrittenSlabs::from_bytes(bytes));
    if (culprit.empty()) culprit = written.back().not_finite;
  }
  if (!culprit.empty() && not_finite == NotFinite::refuse) {
    throw NotFiniteError(fmt::format(
        "{}: {} has elements that are not finite numbers. Earlier checkpoints are as they were.",
        what, culprit));
  }

  error.clear();
  if (target) {
    error = failure_of(path, needed, [&] {
      const TraceScope scope("checkpoint", "publish");
      target->publish(written);
    });
  }
  agree(group, what, error);
  return {needed, seconds_since(start), culprit};
}

}  // namespace lockstep
