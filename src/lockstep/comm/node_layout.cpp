#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/mpi_status.hpp>

namespace lockstep {

NodeLayout node_layout(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  NodeLayout layout;
  layout.host = host_name();
  check_mpi(MPI_Comm_rank(node, &layout.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &layout.local_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return layout;
}

}  // namespace lockstep
