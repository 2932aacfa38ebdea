// Messages of another length than expected, in a program that has initialised MPI itself and left
// it its error handlers, which end the job: the receiver gets an exception, the sender is done, and
// both go on.
#include <array>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;
using test::contains;
using test::expect;

namespace {

const GroupOptions options{.timeout = std::chrono::seconds(60)};

/// Rank 0 sends `sent` elements where rank 1 receives ten.
void message(std::int64_t sent) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, options);
  if (group->rank() == 0) return group->send(Tensor::full({sent}, 1.0), 1);
  const auto received = Tensor::full({10}, 7.0);
  const auto said = test::thrown_by<CommError>([&] { group->recv(received, 0); }, "recv");
  expect(contains(said, std::to_string(4 * sent) + " bytes"), "message: " + said);
  expect(received.to_vector<float>() == std::vector<float>(10, 7.0F), "the tensor is untouched");
}

/// Rank 0 sends `sent` elements where rank 1 expects ten of an exchange; it gets one itself.
void exchange(std::int64_t sent) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, options);
  using Counts = std::array<std::int64_t, 2>;
  if (group->rank() == 0) {
    const auto received = Tensor::zeros({2});
    group->all_to_all_v(Tensor::full({1 + sent}, 1.0), received, Counts{1, sent}, Counts{1, 1})
        .wait();
    return;
  }
  const auto received = Tensor::full({11}, 7.0);
  const auto said = test::thrown_by<CommError>(
      [&] {
        group->all_to_all_v(Tensor::full({2}, 1.0), received, Counts{1, 1}, Counts{10, 1}).wait();
      },
      "all_to_all_v");
  expect(contains(said, "rank 0 sent " + std::to_string(sent) + " elements where 10 were expected"),
         "message: " + said);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (const std::int64_t sent : {0, 9, 11, 50000, 1 << 20}) {
    message(sent);
    exchange(sent);
  }
  const auto group = make_mpi_group(MPI_COMM_WORLD, options);
  group->barrier();
  group->close();
  MPI_Finalize();
  return test::failures ? 1 : 0;
}
