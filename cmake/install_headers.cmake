# SPDX-License-Identifier: Apache-2.0
# Installs a public header, such as verbena/rpc.h, and below verbena/detail the headers that it
# includes, which are no interface. In the installed copies an #include of ours names its file from
# the include folder, so no folder of ours but `verbena` is in a program's search path.
#
# Variables: ROOT, the source tree; SOURCE, the header in it; NAME, its installed name; STAGE, a
# folder for the copies; DESTINATION, the include folder.
function(copy_with_includes from to)
	file(READ ${ROOT}/${from} text)
	string(REGEX MATCHALL "#include \"[^\"\n]+\"" lines "${text}")
	string(REGEX REPLACE "#include \"((lib|base)/[^\"\n]+)\"" "#include <verbena/detail/\\1>" text "${text}")
	file(WRITE ${STAGE}/${to} "${text}")
	foreach(line ${lines})
		string(REGEX REPLACE "#include \"(.*)\"" "\\1" included "${line}")
		if(NOT EXISTS ${STAGE}/detail/${included})
			copy_with_includes(${included} detail/${included})
		endif()
	endforeach()
endfunction()

# Two installations from one build folder may run at the same time.
string(RANDOM LENGTH 12 suffix)
set(STAGE ${STAGE}-${suffix})
copy_with_includes(${SOURCE} ${NAME})
file(INSTALL ${STAGE}/ DESTINATION ${DESTINATION}/verbena)
file(REMOVE_RECURSE ${STAGE})
