// Programs as users from different fields write them: loops that nothing in loopgrad was made for.
#pragma once

#include <loopgrad/loopgrad.h>
#include <loopgrad/main.h>

namespace loopgrad::fields {

/// A program with the sizes that it is checked at, each of them with odd ones.
struct Field {
  ProgramEntry entry;
  std::vector<Sizes> checked;
};

std::vector<Field> learning();       // normalisation, attention, losses, scans
std::vector<Field> sequences();      // dynamic programming, filters, paths
std::vector<Field> solvers();        // linear algebra and stencils
std::vector<Field> particles();      // meshes, particles, images, graphs
std::vector<Field> mixed();          // in place, by choices, and until something holds
std::vector<Field> assorted();       // filters, elements, routing, tori
std::vector<Field> ragged();         // lists of data's length, look-ups where data say, chains of states
std::vector<Field> finding();        // sums into elements that the program itself finds
std::vector<Field> bands();          // pairs, windows, offsets
std::vector<Field> models();         // of physics, language and graphs
std::vector<Field> steps();          // of solvers and networks
std::vector<Field> routing();        // networks that choose where to send what
std::vector<Field> fluxes();         // simulations with their boundaries, limiters and lists
std::vector<Field> rollouts();       // paths, trees and pyramids
std::vector<Field> rows();           // of entries, however they are counted and looked up
std::vector<Field> strides();        // loops whose inner ones jump through memory
std::vector<Field> meetings();       // iterations that meet where data say
std::vector<Field> waves();          // on grids, meshes and lattices
std::vector<Field> estimates();      // of what was measured: filters, trees, fits
std::vector<Field> contacts();       // of bodies, of edges in lists, of accounts
std::vector<Field> pictures();       // mosaics, exposures, lenses, layers
std::vector<Field> reactions();      // of species, decisions, documents, trees
std::vector<Field> shapes();         // surfaces, curves, distances
std::vector<Field> circuits();       // of neurons, qubits, parts
std::vector<Field> structures();     // of bars, magnets, orbits, populations
std::vector<Field> tables();         // groups, joins, windows, contacts
std::vector<Field> scores();         // tensors of entries, speech, sweeps
std::vector<Field> borders();        // of pictures and grids, flattened ones too
std::vector<Field> vectorisers();    // loops that vectorising compilers are measured by
std::vector<Field> packing();        // of what a condition chooses, and searches
std::vector<Field> livermore();      // kernels of Fortran
std::vector<Field> polyhedra();      // kernels that polyhedral compilers are measured by
std::vector<Field> heterogeneous();  // kernels of suites for many-core machines
std::vector<Field> miniapps();       // small parts of large applications
std::vector<Field> extrema();        // that are kept with what belongs to them
std::vector<Field> signals();        // sound, radio, ultrasound
std::vector<Field> trades();         // power, water, money, stocks
std::vector<Field> molecules();      // crystals, proteins, reactions
std::vector<Field> attentions();     // sequence models: chunks, sinks, pages, experts
std::vector<Field> renders();        // Gaussians, surfaces, triangles, planes
std::vector<Field> graphs();         // of types, triangles, sets, walks
std::vector<Field> bodies();         // fluids, contacts, constraints, atoms
std::vector<Field> multigrids();     // levels, implicit steps, spectra, sweeps
std::vector<Field> inference();      // chains, smoothers, trees of words
std::vector<Field> all_fields();

/// A line for each of these and of the built-in programs (or only those named): bytes and number of the arrays that its
/// gradient keeps between its two sweeps.
int print_tapes(const std::vector<std::string>& only);

/// Of these programs, lowered for every target: whether the loops do sums as reports say. 1 where some do not.
int check_explained(const std::vector<std::string>& only);

}  // namespace loopgrad::fields
