#pragma once
#include <filesystem>
#include <system_error>

namespace lockstep {

/// Calls visit(entry), with a std::filesystem::directory_entry, for each entry of `folder`, in no
/// order. Stops at the first error and returns it in `error`: the folder may be missing, or its
/// file server may not answer any more. A range-based loop over a directory_iterator throws at the
/// latter, whatever its constructor was given. Throws only what `visit` throws.
template <class Visit>
void for_each_entry(const std::filesystem::path& folder, const Visit& visit,
                    std::error_code& error) {
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    visit(*at);
  }
}

}  // namespace lockstep
