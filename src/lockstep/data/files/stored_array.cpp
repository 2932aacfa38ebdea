#include <lockstep/data/files/stored_array.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep {

void StoredArray::expect_rows(std::int64_t begin, std::int64_t end, std::int64_t elements) const {
  if (begin >= 0 && begin <= end && end <= rows() && elements == (end - begin) * row_elements())
    return;
  throw Error(fmt::format("rows {} to {} of {} do not fit into {} elements", begin, end,
                          description(), elements));
}

}  // namespace lockstep
