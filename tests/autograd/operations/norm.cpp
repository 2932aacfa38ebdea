#include <lockstep/autograd/functional/group_norm.hpp>
#include <lockstep/autograd/functional/norm.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations norm_operations() {
  return {{"layer_norm",
           {{32, 49, 192}, {192}, {192}},
           [](const Inputs& v) { return layer_norm(v[0], v[1], v[2]); }},
          {"layer_norm_odd",
           {{77, 3, 17}, {3, 17}},
           [](const Inputs& v) { return layer_norm(v[0], v[1], {}); }},
          {"rms_norm", {{97, 130}, {130}}, [](const Inputs& v) { return rms_norm(v[0], v[1]); }},
          {"group_norm",
           {{5, 12, 7, 9}, {12}, {12}},
           [](const Inputs& v) { return group_norm(v[0], 3, v[1], v[2]); }},
          {"instance_norm", {{5, 12, 7, 9}, {12}}, [](const Inputs& v) {
             return instance_norm(v[0], v[1]);
           }}};
}

}  // namespace lockstep::test
