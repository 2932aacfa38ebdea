#include "heat_file.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/hdf5.hpp>
#include <lockstep/io/hdf5_image.hpp>

#include "heat_equation.hpp"
#include "heat_step.hpp"

namespace lockstep::heat {
namespace {

using Extents = std::vector<hsize_t>;

void write_data_set(const Hdf5Handle& group, const std::string& name, const Extents& extents,
                    const std::vector<float>& values, std::int64_t chunk) {
  const std::string what = "write data set " + name;
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  hdf5_check(H5Pset_obj_track_times(creation.id(), false),
             what);  // no time stamps: equal data give equal bytes
  if (chunk > 0) {
    Extents piece = extents;
    piece[0] = std::min(piece[0], static_cast<hsize_t>(chunk));
    hdf5_check(H5Pset_chunk(creation.id(), static_cast<int>(piece.size()), piece.data()), what);
    hdf5_check(H5Pset_shuffle(creation.id()), what);
    hdf5_check(H5Pset_deflate(creation.id(), 4), what);
  }
  const Hdf5Handle space(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose, what);
  const Hdf5Handle dataset(H5Dcreate2(group.id(), name.c_str(), H5T_IEEE_F32LE, space.id(),
                                      H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                           H5Dclose, what);
  hdf5_check(H5Dwrite(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
             what);
}

void write_group(const Hdf5Handle& file, const char* name, std::uint32_t stream, std::int64_t size,
                 const FileOptions& options) {
  const Hdf5Handle group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Gclose, std::string("create group ") + name);
  const HeatSolver solver(options.points);
  std::vector<float> parameters, fields, peaks;
  for (std::int64_t i = 0; i < size; ++i) {
    const Source source = random_source(options.seed, stream, i);
    for (const double p : {source.x, source.y, source.width, source.diffusivity})
      parameters.push_back(static_cast<float>(p));
    std::vector<double> field = solver.initial(source);
    solver.advance(field, source.diffusivity * options.time);
    fields.insert(fields.end(), field.begin(), field.end());
    peaks.push_back(static_cast<float>(*std::max_element(field.begin(), field.end())));
  }
  const auto n = static_cast<hsize_t>(size), points = static_cast<hsize_t>(options.points);
  write_data_set(group, "parameters", {n, 4}, parameters, options.chunk);
  write_data_set(group, "field", {n, points, points}, fields, options.chunk);
  write_data_set(group, "peak", {n}, peaks, options.chunk);
}

/// Pairs of fields one step apart: samples for a field-to-field network.
void write_steps(const Hdf5Handle& file, const char* name, std::uint32_t stream, std::int64_t size,
                 const FileOptions& options) {
  const Hdf5Handle group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Gclose, std::string("create group ") + name);
  const StepSolver solver(options.points, options.step_dims);
  std::vector<float> states, next;
  for (std::int64_t i = 0; i < size; ++i) {
    const State state = solver.random_state(options.seed, stream, i);
    states.insert(states.end(), state.field.begin(), state.field.end());
    states.insert(states.end(), state.conductivity.begin(), state.conductivity.end());
    const std::vector<double> later = solver.advance(state, options.time);
    next.insert(next.end(), later.begin(), later.end());
  }
  Extents extents(static_cast<std::size_t>(options.step_dims) + 2,
                  static_cast<hsize_t>(options.points));
  extents[0] = static_cast<hsize_t>(size);
  extents[1] = 2;
  write_data_set(group, "state", extents, states, options.chunk);
  extents[1] = 1;
  write_data_set(group, "next", extents, next, options.chunk);
}

}  // namespace

void write_file(const FileOptions& options) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::symlink_status(options.file))) {
    throw InputError(
        fmt::format("{} exists already and is not overwritten. Remove it, or name another file.",
                    options.file.string()));
  }
  AtomicFile target(options.file);  // before the computation: an unwritable folder fails early
  Hdf5Image image;
  {
    const Hdf5Lock lock;
    const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create a property list");
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create a property list");
    Hdf5Handle file = image.create(creation, access);
    const auto write = options.step_dims > 0 ? write_steps : write_group;
    write(file, "train", 0, options.train, options);
    write(file, "test", 1, options.test, options);
    file.close("close the file");
  }
  std::vector<char> buffer(std::size_t{1} << 20U);
  for (std::int64_t at = 0; at < image.size(); at += std::ssize(buffer)) {
    const std::int64_t bytes = std::min<std::int64_t>(std::ssize(buffer), image.size() - at);
    image.read_at(at, buffer.data(), bytes);
    target.file().write_at(at, buffer.data(), bytes);
  }
  target.publish();
}

}  // namespace lockstep::heat
