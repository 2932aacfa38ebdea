// Generates data for regress: solutions of the heat equation from random sources.
//   heat_data heat.h5 && mpiexec -n 2 regress inputs/heat.toml
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <lockstep/base/version.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "heat_file.hpp"
#include "tool.hpp"

int main(int argc, char** argv) {
  lockstep::heat::FileOptions options;
  CLI::App cli(
      "Write solutions of the two-dimensional heat equation into an HDF5 file. Groups train and "
      "test each hold parameters [N, 4] (x, y, width, diffusivity of a Gaussian source in the unit "
      "square), the final field [N, n, n] and its largest value, peak [N]. With --step they hold "
      "state [N, 2, n, ...] (a field of random sources and a varying conductivity) and next [N, 1, "
      "n, ...] (the field --time later). An existing file is not overwritten.",
      "heat_data");
  cli.set_version_flag("--version", fmt::format("heat_data {}", lockstep::version()));
  cli.add_option("FILE", options.file, "the file to write")->required();
  const auto count = [&](const char* name, auto& field, const char* help, auto least, auto most) {
    cli.add_option(name, field, help)->check(CLI::Range(least, most))->capture_default_str();
  };
  constexpr std::int64_t many = 100'000'000;
  count("--train", options.train, "number of training samples", std::int64_t{1}, many);
  count("--test", options.test, "number of test samples", std::int64_t{1}, many);
  count("--points", options.points, "n, the number of inner points in each direction",
        std::int64_t{2}, std::int64_t{1024});
  cli.add_option("--time", options.time, "time of the field, in length^2 / diffusivity")
      ->check(lockstep::number_within(0, 1e3))
      ->capture_default_str();
  count("--chunk", options.chunk, "rows in a compressed chunk; 0: uncompressed and contiguous",
        std::int64_t{0}, many);
  cli.add_option("--step", options.step_dims,
                 "pairs of fields one step apart, in 2 or 3 dimensions")
      ->check(CLI::Range(2, 3));
  cli.add_option("--seed", options.seed, "random seed of the sources")
      ->check(lockstep::seed_of_64_bits())
      ->capture_default_str();
  return lockstep::run_tool(cli, argc, argv, [&] {
    lockstep::heat::write_file(options);
    lockstep::train::write_stdout(fmt::format(
        "wrote {}: {} training and {} test samples of {} x {}{} points\n", options.file.string(),
        options.train, options.test, options.points, options.points,
        options.step_dims == 3 ? fmt::format(" x {}", options.points) : ""));
    return lockstep::ExitCode::done;
  });
}
