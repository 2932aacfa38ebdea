#pragma once
// Layers with PyTorch's names, parameter layouts and default initialisation.
#include <lockstep/nn/layers/activation.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/nn/layers/conv.hpp>
#include <lockstep/nn/layers/conv_nd.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/norm.hpp>
#include <lockstep/nn/layers/pool.hpp>
#include <lockstep/nn/layers/recurrent.hpp>
#include <lockstep/nn/layers/resample.hpp>
#include <lockstep/nn/layers/residual.hpp>
#include <lockstep/nn/layers/shape.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/sequential.hpp>
