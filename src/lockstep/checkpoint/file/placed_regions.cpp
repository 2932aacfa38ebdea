#include <lockstep/checkpoint/file/placed_regions.hpp>

#include <cstdint>
#include <functional>

namespace lockstep {

std::vector<Region> placed_regions(const Placement& placement, const Shape& local) {
  if (!placement.slab_run) return {{placement.rectangle_offsets(), placement.by_parts(local)}};
  const auto& [slab, run_begin] = *placement.slab_run;
  const Shape sizes = placement.by_parts(slab), offsets = placement.rectangle_offsets();
  const int dims = sizes.dims();
  std::vector<std::int64_t> from(offsets.begin(), offsets.end()),
      extents(sizes.begin(), sizes.end());
  std::vector<Region> regions;
  // Elements [begin, end) of those whose first `d` indices are those in `from`: the rest of a row,
  // whole rows, the beginning of a row.
  const std::function<void(int, std::int64_t, std::int64_t)> cut = [&](int d, std::int64_t begin,
                                                                       std::int64_t end) {
    if (begin >= end) return;
    if (d == dims) return regions.push_back({Shape(from), Shape(extents)});
    const auto at = static_cast<std::size_t>(d);
    std::int64_t row = 1;
    for (int inner = d + 1; inner < dims; ++inner) row *= sizes[inner];
    const std::int64_t first = (begin + row - 1) / row, last = end / row;
    const auto within_row = [&](std::int64_t index, std::int64_t in_begin, std::int64_t in_end) {
      from[at] = offsets[d] + index;
      extents[at] = 1;
      cut(d + 1, in_begin, in_end);
    };
    if (first > last) {
      within_row(last, begin - last * row, end - last * row);
    } else {
      if (begin < first * row) within_row(first - 1, begin - (first - 1) * row, row);
      if (first < last) {
        from[at] = offsets[d] + first;
        extents[at] = last - first;
        regions.push_back({Shape(from), Shape(extents)});
      }
      if (last * row < end) within_row(last, 0, end - last * row);
    }
    from[at] = offsets[d];
    extents[at] = sizes[d];
  };
  cut(0, run_begin, run_begin + local.numel());
  return regions;
}

}  // namespace lockstep
